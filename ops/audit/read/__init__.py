"""What an audit reads: the master, Kafka, the tables and the API."""
