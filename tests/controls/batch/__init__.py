"""Wrong on purpose: the batch layer."""
