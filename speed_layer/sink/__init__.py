"""How a micro-batch gets into Cassandra and onto view-updates.

Once in effect, however often it is written.
"""
