"""One driver for each checkpoint: a second one is refused."""

import fcntl
import os
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
def exclusive(checkpoint: Path) -> Iterator[None]:
    """Holds the checkpoint for this process, until the block or the process ends. Raises AlreadyRunning at once."""
    file = _beside(checkpoint, ".lock")
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunning(_message(checkpoint, file)) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@contextmanager
def exclusive_in_jvm(spark: SparkSession, checkpoint: Path) -> Iterator[None]:
    """Holds the checkpoint for this driver's JVM, which outlives a killed Python for some seconds and writes meanwhile.

    Waits for such a JVM of an earlier driver to end. Raises AlreadyRunning if it does not.
    """
    file = _beside(checkpoint, ".jvm-lock")
    opened = spark._jvm.java.io.RandomAccessFile(str(file.absolute()), "rw")  # type: ignore[union-attr]
    try:
        if not _taken(opened.getChannel().tryLock):
            raise AlreadyRunning(f"checkpoint {checkpoint}: the JVM of an earlier driver still runs; end it first")
        yield
    finally:
        # A JVM that has ended holds nothing.
        with suppress(Py4JError, ConnectionError):
            opened.close()


def _taken(try_lock: Callable[[], object]) -> bool:
    patience = Retrying(
        retry=retry_if_result(lambda held: held is None),
        stop=stop_after_delay(_JVM_SECONDS),
        wait=wait_fixed(0.2),
        retry_error_callback=lambda state: None,
    )
    return patience(try_lock) is not None


def _beside(checkpoint: Path, ending: str) -> Path:
    # Beside, not inside: moving a checkpoint away must not take the lock with it.
    return checkpoint.with_name(checkpoint.name + ending)


def _message(checkpoint: Path, file: Path) -> str:
    holder = file.read_text("utf-8").strip() or "unknown"
    return f"checkpoint {checkpoint}: process {holder} works with it; stop that one, or set TALLY_CHECKPOINTS to another folder"
