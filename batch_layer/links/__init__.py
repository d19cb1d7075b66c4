"""Which records of other days a day needs for the fates of its own."""
