"""Unit tests: ingest drop."""
