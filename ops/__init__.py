"""What a person or a machine runs: the command line, the local stack, the audit, the oracle, the
demo."""
