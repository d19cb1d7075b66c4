"""The domain of Tally: events, windows, view algebra, merge rule, ledger, errors and settings."""
