"""Every committed canonical record, once, in an append-only Delta table."""
