"""Shared test material: oracles."""
