"""Shared test material: stack."""
