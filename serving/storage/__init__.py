"""Reads of the serving tables in Cassandra."""
