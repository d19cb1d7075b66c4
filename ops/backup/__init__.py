"""A copy of all that Tally cannot compute again, and its way back into an empty home."""
