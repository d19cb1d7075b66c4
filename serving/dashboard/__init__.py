"""The dashboard: pages built from the same answers as the API.

Everything they show is served by this process.
"""
