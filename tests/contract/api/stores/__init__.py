"""Contract tests: api stores."""
