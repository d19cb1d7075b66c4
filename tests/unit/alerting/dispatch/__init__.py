"""Unit tests: alerting dispatch."""
