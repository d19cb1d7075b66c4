"""The proof that no record was lost or counted twice: the ledger, and comparisons of all values."""
