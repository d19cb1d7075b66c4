"""Everything on the way into Kafka: gateway, normaliser, the processor loop, and sources of
messages."""
