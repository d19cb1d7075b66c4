"""Calls to what others run: addresses looked at, no redirects, bounded in time and size."""
