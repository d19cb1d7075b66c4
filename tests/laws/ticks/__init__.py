"""Laws: ticks."""
