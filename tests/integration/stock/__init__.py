"""Stock movements and their adapter on the real broker."""
