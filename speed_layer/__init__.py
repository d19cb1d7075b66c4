"""The speed layer: streaming queries that keep the view rows of open windows in Cassandra,
seconds behind the stores."""
