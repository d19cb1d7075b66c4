"""Sinks of a micro-batch: Cassandra and the topic view-updates.

Repeated writes have the effect of one.
"""
