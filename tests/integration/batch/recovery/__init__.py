"""What brings everything back after a loss, and what goes after its time."""
