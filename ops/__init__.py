"""What a person or a machine runs: command line, local stack, audit, oracle, demo."""
