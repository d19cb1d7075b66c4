"""What a rebuild computes: its days, its input, and what it may claim."""
