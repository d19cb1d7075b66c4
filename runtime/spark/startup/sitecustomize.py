"""Start-up code of each Python process that Spark starts (runtime/spark/session.py).

It makes PySpark come from the installation, and not from the copy in Spark's archives.

Python compiles modules imported from an archive again in each process, half a second for PySpark;
and for each task a worker clears the import system's caches, so that it reads the directory of
every archive on its path again, 150 ms.
"""

import sys
from importlib.util import find_spec
from pathlib import Path


def remove_archives() -> None:
    """Remove archives from the search path, if PySpark can be imported without them."""
    path = [*sys.path]
    archives = [entry for entry in path if Path(entry).is_file()]
    sys.path[:] = [entry for entry in path if entry not in archives]
    if find_spec("pyspark") is None:
        sys.path[:] = path
        return
    # Code that clears the caches of importers finds them here, and not by the path.
    for archive in archives:
        sys.path_importer_cache.pop(archive, None)


remove_archives()
