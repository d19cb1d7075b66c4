"""Movements of stock, and the calls that send them to another system; without input or output."""
