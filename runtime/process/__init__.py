"""The life of a process: log, readiness, heartbeat, locks and files."""
