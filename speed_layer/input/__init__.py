"""Canonical topics as a stream, and the records of a partition."""
