"""Daemon of Spark's Python workers (`spark.python.daemon.module`): PySpark's, with more imports."""

from importlib import import_module

# Imported once, and present in each forked worker: Spark ends a worker that was idle for a minute,
# and the first receipt after that would wait for all these imports.
PRELOADED_MODULES = (
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
    for module in PRELOADED_MODULES:
        import_module(module)
    import_module("pyspark.daemon").manager()
