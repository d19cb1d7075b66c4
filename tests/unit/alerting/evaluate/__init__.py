"""Unit tests: alerting evaluate."""
