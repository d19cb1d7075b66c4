"""What a rebuild computes from the master dataset: its input, its days, and their rows."""
