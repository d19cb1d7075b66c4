"""Chaos tests: alerts."""
