"""An alert: its id, its current state, and where it is settled."""
