"""Unit tests: architecture counts."""
