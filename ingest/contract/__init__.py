"""What a message may be: shared by all sources, and by gateway and normaliser."""
