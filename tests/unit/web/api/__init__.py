"""Unit tests: web api."""
