"""Judges the views by the alert rules, and publishes what has changed to the topic `alerts`."""
