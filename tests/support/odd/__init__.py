"""Shared test material: odd."""
