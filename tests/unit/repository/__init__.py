"""Unit tests: repository."""
