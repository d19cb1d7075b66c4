"""Integration tests: alerting evaluate."""
