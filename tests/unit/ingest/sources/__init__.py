"""Unit tests: ingest sources."""
