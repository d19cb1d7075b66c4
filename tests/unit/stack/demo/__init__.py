"""Unit tests: stack demo."""
