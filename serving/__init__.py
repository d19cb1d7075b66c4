"""Serving layer: answers from the batch and speed views, over HTTP and on the dashboard."""
