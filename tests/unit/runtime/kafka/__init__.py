"""Unit tests: runtime kafka."""
