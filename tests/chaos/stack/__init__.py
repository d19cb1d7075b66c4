"""Chaos tests: stack."""
