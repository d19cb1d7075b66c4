"""HTTP endpoints of stores and devices: a schema check, then the raw topic."""
