"""Run first by each Python that Spark starts (runtime/spark.py).

So PySpark is taken as it is installed, and not from the copy in Spark's archives.

Python compiles what it imports of an archive anew in each process, half a second for PySpark; and
for each task a worker has the import system forget what it knows, so that it reads the directory of
every archive on its path again, 150 ms.
"""

import sys
from importlib.util import find_spec
from pathlib import Path


def without_archives() -> None:
    """The search path names no archive, if PySpark can be imported without."""
    path = [*sys.path]
    archives = [entry for entry in path if Path(entry).is_file()]
    sys.path[:] = [entry for entry in path if entry not in archives]
    if find_spec("pyspark") is None:
        sys.path[:] = path
        return
    # Whoever has the importers forget what they know finds them here, and not by the path.
    for archive in archives:
        sys.path_importer_cache.pop(archive, None)


without_archives()
