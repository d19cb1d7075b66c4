"""Contract tests: api alerts."""
