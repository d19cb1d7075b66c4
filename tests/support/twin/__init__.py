"""Shared test material: twin."""
