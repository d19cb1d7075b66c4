"""Unit tests: web reports."""
