"""Records that operators handle: dead letters, gaps, backfills, keys of devices."""
