"""The topic `alerts` filed in Cassandra, where it can be asked by store, time and id."""
