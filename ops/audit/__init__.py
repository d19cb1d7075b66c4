"""The proof that no record was lost and none was counted twice.

It consists of the ledger, and of every served value compared with the oracle.
"""
