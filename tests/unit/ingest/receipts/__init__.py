"""Unit tests: ingest receipts."""
