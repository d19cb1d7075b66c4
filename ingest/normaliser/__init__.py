"""Raw messages to canonical records and dead letters."""
