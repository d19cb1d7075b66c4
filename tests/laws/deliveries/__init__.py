"""Laws: deliveries."""
