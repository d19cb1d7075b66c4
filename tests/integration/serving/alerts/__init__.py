"""Integration tests: serving alerts."""
