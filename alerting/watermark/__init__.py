"""Ticks: up to when all arrived records have been read."""
