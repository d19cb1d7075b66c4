"""The services of the local stack."""
