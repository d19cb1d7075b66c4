"""Where the Python workers of Spark come from (`spark.python.daemon.module`): PySpark's own daemon, with a lean search path.

For each task a worker has Python's import system forget what it knows, and Python then reads the directory of every archive on its
path anew, in Python: PySpark's own zip files and a jar of thousands of classes, 150 ms a task. What they hold is installed beside.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

# Imported once, and there in each worker that is forked: Spark ends a worker that was idle for a minute, and the first receipt
# after it would wait for all of them.
FORKED = (
    "numpy", "pandas", "pyarrow.compute", "pyarrow.ipc", "pyspark.worker", "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.stateful_processor_util", "pyspark.sql.streaming.proto.StateMessage_pb2", "pydantic", "msgspec",
    "cassandra.cluster", "confluent_kafka",
)  # fmt: skip


def without_archives() -> None:
    """The search path names no archive, if PySpark can be imported without."""
    path, archives = [*sys.path], [entry for entry in sys.path if Path(entry).is_file()]
    sys.path[:] = [entry for entry in path if entry not in archives]
    if find_spec("pyspark") is None:
        sys.path[:] = path
        return
    for archive in archives:
        sys.path_importer_cache.pop(archive, None)


if __name__ == "__main__":
    without_archives()
    # Only now: whatever is imported before comes from an archive.
    for module in FORKED:
        import_module(module)
    import_module("pyspark.daemon").manager()
