"""Receipts and documents to movements of stock, exactly once."""
