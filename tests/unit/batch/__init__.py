"""The batch layer's decisions, without any service."""
