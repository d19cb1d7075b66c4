"""Laws: alerting worlds."""
