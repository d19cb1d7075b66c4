"""Contract tests: api metrics."""
