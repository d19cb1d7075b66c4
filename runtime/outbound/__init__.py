"""Calls to external services: checked addresses, no redirects, bounded in time and size."""
