"""The merge at read: what each layer holds of a store's windows, and what is served from it."""
