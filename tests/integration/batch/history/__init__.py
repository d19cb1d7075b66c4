"""Rebuilds of a master with years of history."""
