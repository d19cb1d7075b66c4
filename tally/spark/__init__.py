"""The DataFrame transforms and columns that both layers share."""
