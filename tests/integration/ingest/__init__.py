"""Ingest on a real Kafka."""
