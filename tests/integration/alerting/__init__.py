"""Integration tests: alerting."""
