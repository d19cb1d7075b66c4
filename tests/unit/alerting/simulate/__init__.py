"""Unit tests: alerting simulate."""
