"""Spark: sessions, configuration, workers and checkpoints."""
