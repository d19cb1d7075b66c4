"""Processes that the stack starts, and their supervision."""
