"""Code that every process shares: its end, its heartbeat, its connections to other services."""
