"""Alerts as functions of values: rules, verdicts, episodes, and what is to be told of them."""
