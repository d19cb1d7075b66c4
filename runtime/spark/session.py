"""The Spark session of every job, and the lock that its JVM holds.

Its workers run the same Python and find this repository; its driver starts no child processes.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from runtime.process.files import REPOSITORY
from runtime.spark.configuration import spark_conf
from tally.config.settings import Settings
from tally.errors import AlreadyRunning

# A JVM notices within about 2 s that its Python was killed.
_JVM_SECONDS = 20.0
STARTUP = Path(__file__).parent / "startup"


def build_session(
    settings: Settings, name: str, more: Mapping[str, str] | None = None
) -> SparkSession:
    """Build a session; `more`: further settings. Raises TallyError when JVM parts are missing."""
    configuration = {**spark_conf(settings), **(more or {})}
    spark = SparkSession.builder.appName(name).config(map={**configuration}).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # Set on the context, not by the environment: the `python3` of the PATH must not matter.
    spark.sparkContext.pythonExec = sys.executable
    # Spark's archives come before these entries; STARTUP runs before anything else is imported.
    path = os.pathsep.join((str(STARTUP), str(REPOSITORY)))
    spark.sparkContext.environment["PYTHONPATH"] = path
    # Otherwise Spark runs `rm -rf` for each folder, for a state store every few micro-batches:
    # ADR 004.
    assert spark._jvm is not None
    tools = spark._jvm.java.lang.Class.forName("org.apache.spark.network.util.JavaUtils")
    tools.getField("isUnix").setBoolean(None, False)
    return spark


@contextmanager
def lock_folder_in_jvm(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Hold the folder, a checkpoint or the master dataset, until the block or the JVM ends.

    Waits for the JVM of an earlier, killed driver to end: it outlives its Python for some seconds
    and writes meanwhile. Raises AlreadyRunning if it does not end.
    """
    # The lock lies beside the folder, not inside: moving the folder must not move the lock.
    file = folder.with_name(f"{folder.name}.jvm-lock")
    jvm = spark.sparkContext._jvm
    assert jvm is not None  # only a Spark Connect session has none
    # The JVM itself takes the lock: a lock of Python's is released as soon as Python dies.
    opened = jvm.java.io.RandomAccessFile(str(file.absolute()), "rw")
    patience = Retrying(
        retry=retry_if_result(lambda lock: lock is None),
        stop=stop_after_delay(_JVM_SECONDS),
        wait=wait_fixed(0.2),
        retry_error_callback=lambda _state: None,
    )
    try:
        if patience(opened.getChannel().tryLock) is None:
            raise AlreadyRunning(f"{folder}: the JVM of an earlier driver still runs; end it first")
        yield
    finally:
        # A JVM that has ended holds nothing.
        with suppress(Py4JError, ConnectionError):
            opened.close()
