"""The proof that nothing was lost and nothing counted twice: the ledger, and every served value
against the oracle."""
