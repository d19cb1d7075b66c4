"""Tests with the real Kafka, Cassandra, Spark and Airflow."""
