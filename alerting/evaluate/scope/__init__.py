"""Which rules, stores and days are evaluated."""
