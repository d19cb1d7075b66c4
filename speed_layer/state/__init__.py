"""The state of a partition: windows and presences."""
