"""Chaos tests: layers."""
