"""Unit tests: batch plan."""
