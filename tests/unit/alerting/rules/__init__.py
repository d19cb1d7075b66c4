"""Unit tests: alerting rules."""
