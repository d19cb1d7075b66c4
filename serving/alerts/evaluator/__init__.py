"""Judges the views by the rules, and tells what has not been told: topic `alerts`."""
