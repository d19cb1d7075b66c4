"""An alert: its id, its current state, and the records that store it."""
