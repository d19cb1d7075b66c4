"""Alerts as pure functions: rules, verdicts, episodes, and the alerts to publish for them."""
