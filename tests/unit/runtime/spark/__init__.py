"""Unit tests: runtime spark."""
