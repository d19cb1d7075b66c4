"""Everything on the way into Kafka: gateway, normaliser, and sources of messages."""
