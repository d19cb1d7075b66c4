"""Material that several tiers of tests share."""
