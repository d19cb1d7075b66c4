"""The speed layer: streaming queries that are seconds behind the stores.

They keep the view rows of open windows in Cassandra up to date.
"""
