"""What every process shares: how a job ends, its heartbeat, its way to other services.

These are Kafka, Cassandra and HTTP.
"""
