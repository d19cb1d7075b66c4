"""The batch layer: the master dataset that only grows, and the views that are rebuilt from it."""
