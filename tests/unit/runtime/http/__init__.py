"""Unit tests: runtime http."""
