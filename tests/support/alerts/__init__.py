"""Shared test material: alerts."""
