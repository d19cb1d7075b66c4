"""Unit tests: ingest processor."""
