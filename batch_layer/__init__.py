"""The batch layer: the append-only master dataset, and the views that are rebuilt from it."""
