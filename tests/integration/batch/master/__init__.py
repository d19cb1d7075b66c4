"""Integration tests: batch master."""
