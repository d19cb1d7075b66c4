"""Ingest without Kafka: normalisation, replay plan, alignment, gateway."""
