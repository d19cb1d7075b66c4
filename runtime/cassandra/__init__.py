"""Cassandra: acknowledged writes, and reads that are retried."""
