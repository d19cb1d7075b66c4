"""The health of alerting: which rules cannot be evaluated, and why."""
