"""Unit tests: ingest counters."""
