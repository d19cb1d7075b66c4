"""How outputs and positions are stored together."""
