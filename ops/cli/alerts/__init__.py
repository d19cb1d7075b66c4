"""Commands for alerts, rules and channels."""
