"""Laws: layers."""
