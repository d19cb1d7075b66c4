"""An append-only Delta table that holds every committed canonical record once."""
