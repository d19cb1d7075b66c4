"""The proof that nothing was lost and nothing counted twice.

It is the ledger, and every served value against the oracle.
"""
