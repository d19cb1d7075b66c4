"""The audit and the oracle."""
