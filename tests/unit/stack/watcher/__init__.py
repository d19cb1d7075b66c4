"""Unit tests: stack watcher."""
