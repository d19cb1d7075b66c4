"""Shared test material: evaluation."""
