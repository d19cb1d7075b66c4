"""Unit tests: web."""
