"""Lines of stock documents: what was delivered, counted, or moved between stores."""
