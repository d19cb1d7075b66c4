"""Forms in which people counters post their intervals, a file each."""
