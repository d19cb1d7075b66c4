"""A folder for each source of events, and the registry that finds them."""
