"""The merge at read: reads a store's windows from each layer, and decides which rows to serve."""
