"""Unit tests: speed definitions."""
