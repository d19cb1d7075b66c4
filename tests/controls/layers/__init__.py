"""Planted faults: layers."""
