"""Planted faults: alerts."""
