"""Unit tests: web rules."""
