"""Planted faults: processes."""
