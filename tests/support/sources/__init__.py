"""Shared test material: sources."""
