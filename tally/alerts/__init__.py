"""What the layers share about alerts: messages, ticks and baselines."""
