"""Alert rules: their model, checks and versions."""
