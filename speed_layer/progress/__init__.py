"""How far each query is, and where it begins."""
