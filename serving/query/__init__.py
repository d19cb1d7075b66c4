"""A question, from its parameters to its cells; no HTTP.

API, dashboard, reports and alerts stand on it.
"""
