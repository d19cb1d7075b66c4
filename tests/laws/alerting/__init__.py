"""Laws: alerting."""
