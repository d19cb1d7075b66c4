"""`python -m inventory.sync`: sends movements of stock to the system that keeps it."""
