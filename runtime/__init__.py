"""The mechanics that every process shares: how a job ends, its heartbeat, its way to Kafka,
Cassandra and HTTP."""
