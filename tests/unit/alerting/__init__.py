"""Unit tests: alerting."""
