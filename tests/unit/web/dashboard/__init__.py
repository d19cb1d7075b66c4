"""Unit tests: web dashboard."""
