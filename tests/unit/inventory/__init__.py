"""Unit tests: inventory."""
