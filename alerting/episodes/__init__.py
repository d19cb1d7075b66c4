"""Verdicts, and the episodes that they are folded into."""
