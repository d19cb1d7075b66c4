"""Unit tests: alerting verdicts."""
