"""The stores file, the sensors in it, and the families of all sources."""
