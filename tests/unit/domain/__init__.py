"""The domain: tally/."""
