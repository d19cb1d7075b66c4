"""The speed layer: streaming queries, seconds behind the stores.

They keep the view rows of open windows in Cassandra.
"""
