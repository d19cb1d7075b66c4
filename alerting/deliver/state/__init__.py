"""The records of deliveries, and the memory of a partition."""
