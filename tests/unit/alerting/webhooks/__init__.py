"""Unit tests: alerting webhooks."""
