"""The speed layer on the real Kafka, Cassandra and Spark."""
