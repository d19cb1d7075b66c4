"""Where the Python workers of Spark come from (`spark.python.daemon.module`).

PySpark's own daemon, which has imported all they need.
"""

from importlib import import_module

# Imported once, and there in each worker that is forked: Spark ends a worker that was idle for a
# minute, and the first receipt after it would wait for all of them.
FORKED = (
    "numpy",
    "pandas",
    "pyarrow.compute",
    "pyarrow.ipc",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.stateful_processor_util",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pydantic",
    "msgspec",
    "cassandra.cluster",
    "confluent_kafka",
)


if __name__ == "__main__":
    for module in FORKED:
        import_module(module)
    import_module("pyspark.daemon").manager()
