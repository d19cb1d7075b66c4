"""Integration tests: alerting deliver."""
