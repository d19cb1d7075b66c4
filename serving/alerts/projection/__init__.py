"""Files the topic `alerts` in Cassandra, where alerts can be read by store, time and id."""
