"""Unit tests: alerting watermark."""
