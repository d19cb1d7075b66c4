"""A snapshot of the views, as rules read it."""
