"""Reading both layers and merging them, window by window."""
