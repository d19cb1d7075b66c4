"""Integration tests: batch events."""
