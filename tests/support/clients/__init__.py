"""Shared test material: clients."""
