"""Turns receipts and documents into movements of stock, exactly once."""
