"""Receipts of points of sale."""
