"""`python -m alerting.publish`: files published alerts in Cassandra."""
