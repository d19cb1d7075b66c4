"""The dashboard: one page over the same answers as the API.

Everything it shows is served by this process.
"""
