"""Shared test material: serving."""
