"""Reads of the serving tables in Cassandra, and the protocols of their readers."""
