"""Movements of stock, and their synchronisation with another system."""
