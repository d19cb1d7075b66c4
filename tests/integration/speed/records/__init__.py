"""Integration tests: speed records."""
