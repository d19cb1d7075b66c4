"""Unit tests: ingest gateway."""
