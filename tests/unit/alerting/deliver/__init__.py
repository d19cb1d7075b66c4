"""Unit tests: alerting deliver."""
