"""Unit tests: inventory target."""
