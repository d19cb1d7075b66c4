"""Unit tests: serving disclosure."""
