"""The dispatcher: alerts to webhooks, each state at least once under one key."""
