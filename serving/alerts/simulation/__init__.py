"""Simulates a rule over past days and compares the result with the alerts that were sent."""
