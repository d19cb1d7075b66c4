"""Verdicts of rules on windows, and the alerts that follow."""
