"""How a micro-batch gets into Cassandra and onto view-updates: once in effect, however often it
is written."""
