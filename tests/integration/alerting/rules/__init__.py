"""Integration tests: alerting rules."""
