"""Tests against the real Kafka, Cassandra and Spark."""
