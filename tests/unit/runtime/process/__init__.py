"""Unit tests: runtime process."""
