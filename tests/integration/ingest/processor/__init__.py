"""Integration tests: ingest processor."""
