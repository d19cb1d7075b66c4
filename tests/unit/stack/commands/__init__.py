"""Unit tests: stack commands."""
