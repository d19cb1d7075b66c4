"""`python -m inventory.movements`: turns receipts and documents into movements of stock."""
