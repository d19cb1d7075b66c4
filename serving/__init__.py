"""Serving: what the views answer, over HTTP and on a page."""
