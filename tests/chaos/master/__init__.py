"""Chaos tests: the master dataset."""
