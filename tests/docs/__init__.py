"""The documents say what is there."""
