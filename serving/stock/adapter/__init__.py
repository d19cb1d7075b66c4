"""Sends movements of stock to another system, with the guarantees that the system allows."""
