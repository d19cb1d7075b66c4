"""The domain of Tally: events, windows, the view algebra, the merge rule, the ledger, errors and
settings."""
