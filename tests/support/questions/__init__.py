"""Shared test material: questions."""
