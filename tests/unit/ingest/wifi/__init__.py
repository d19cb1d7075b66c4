"""Unit tests: ingest wifi."""
