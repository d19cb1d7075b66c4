"""Laws: time."""
