"""Questions about alerts, and what people do with them."""
