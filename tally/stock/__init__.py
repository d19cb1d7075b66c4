"""Movements of stock, and the calls that tell them to another system; pure."""
