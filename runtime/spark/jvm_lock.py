"""A lock on a driver's folder that is held by the driver's JVM.

The JVM outlives a killed Python for some seconds and writes meanwhile.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from tally.errors import AlreadyRunning

# A JVM notices within about 2 s that its Python was killed.
_JVM_SECONDS = 20.0


@contextmanager
def lock_folder_in_jvm(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Hold the folder for this driver's JVM, until the block or the JVM ends.

    The folder is a checkpoint or the master dataset. Waits for the JVM of an earlier, killed driver
    to end. Raises AlreadyRunning if it does not.
    """
    # The lock lies beside the folder, not inside: moving the folder must not move the lock.
    file = folder.with_name(f"{folder.name}.jvm-lock")
    jvm = spark.sparkContext._jvm
    assert jvm is not None  # only a Spark Connect session has none
    # The JVM itself takes the lock: a lock of Python's is released as soon as Python dies.
    opened = jvm.java.io.RandomAccessFile(str(file.absolute()), "rw")
    try:
        if not _acquire(opened.getChannel().tryLock):
            raise AlreadyRunning(f"{folder}: the JVM of an earlier driver still runs; end it first")
        yield
    finally:
        # A JVM that has ended holds nothing.
        with suppress(Py4JError, ConnectionError):
            opened.close()


def _acquire(try_lock: Callable[[], object]) -> bool:
    patience = Retrying(
        retry=retry_if_result(lambda lock: lock is None),
        stop=stop_after_delay(_JVM_SECONDS),
        wait=wait_fixed(0.2),
        retry_error_callback=lambda state: None,
    )
    return patience(try_lock) is not None
