"""The memory of an evaluator."""
