"""The state of a partition: windows and presences, and the sink of their rows."""
