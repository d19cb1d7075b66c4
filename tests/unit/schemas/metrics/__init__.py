"""Unit tests: schemas metrics."""
