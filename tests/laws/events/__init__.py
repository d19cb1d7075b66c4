"""Laws: events."""
