"""Movements of stock to another system, with what that makes possible to promise."""
