"""Kafka: readers, producers, positions, and how a topic is recognised."""
