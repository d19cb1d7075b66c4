"""The whole loop as processes: kills, zombies, catching up, readers meanwhile, and the audit at
the end."""
