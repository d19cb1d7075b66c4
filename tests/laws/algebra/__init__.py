"""Laws: algebra."""
