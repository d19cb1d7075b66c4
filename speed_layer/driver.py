"""One Spark driver with its streaming queries, from the locks to the last micro-batch.

The jobs say which queries.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import structlog
from pyspark.sql import SparkSession

from runtime.connect import cassandra_session
from runtime.job import run_until_stopped, say_ready
from runtime.jvm_lock import exclusive_in_jvm
from runtime.lock import exclusive
from speed_layer.floor import floor_of
from speed_layer.keeper import JVM_GONE, Keeper, Planned
from speed_layer.liveness import Liveness
from speed_layer.session import Begin, Driver, build_streaming_session
from tally.errors import TallyError
from tally.settings import Settings

WATCH_SECONDS = 0.2
log = structlog.get_logger()


def main(
    title: str,
    planned: Callable[[], Sequence[Planned]],
    begin: Begin = Begin(floor_of),
    adapted: Callable[[Settings], Settings] = lambda own: own,
) -> int:
    """Exit code of a job that keeps these queries running until SIGTERM or SIGINT (runtime/job.py).

    `adapted` is what the job makes of the settings.
    """

    def work(stop: threading.Event) -> None:
        queries = planned()
        run(adapted(Settings.load()), queries, begin, stop)

    return run_until_stopped(title, work)


def run(
    settings: Settings, planned: Sequence[Planned], begin: Begin, stop: threading.Event
) -> None:
    """Returns once `stop` is set.

    Raises TallyError when a query cannot start, refuses, or fails again and again.
    """
    with ExitStack() as held:
        # First of all: a second driver is refused before it has opened anything. Spark itself would
        # not notice, for on a local disk its logs are created by a rename, which two can win.
        for one in planned:
            held.enter_context(exclusive(settings.checkpoint(one.name)))
        session = held.enter_context(cassandra_session(settings))
        driver = Driver(held.enter_context(_spark(settings)), session, settings, begin)
        for one in planned:
            # The lock above ends with this Python. The JVM of a killed one goes on for about 2 s,
            # and a quick restart would write beside it (seen).
            held.enter_context(exclusive_in_jvm(driver.spark, settings.checkpoint(one.name)))
        keepers = [held.enter_context(_running(driver, one)) for one in planned]
        say_ready(settings)
        log.info("ready")
        watch(keepers, Liveness(driver, keepers), stop)


def watch(keepers: Sequence[Keeper], liveness: Liveness, stop: threading.Event) -> None:
    """Looks after the queries until `stop` is set.

    Raises TallyError with the first that cannot go on.
    """
    try:
        while not stop.wait(WATCH_SECONDS):
            for keeper in keepers:
                keeper.look()
            liveness.beat()
        # Its queries have ended with it and cannot be started again from here: a new process has a
        # new JVM.
    except JVM_GONE as error:
        raise TallyError(
            f"the JVM of the driver has ended ({error}); start the job again"
        ) from error


@contextmanager
def _running(driver: Driver, planned: Planned) -> Iterator[Keeper]:
    keeper = Keeper(driver, planned)
    try:
        # Inside: a start that fails late, for want of Cassandra, may have left the query running.
        keeper.start()
        yield keeper
    finally:
        keeper.stop()


@contextmanager
def _spark(settings: Settings) -> Iterator[SparkSession]:
    spark = build_streaming_session(settings)
    try:
        yield spark
    finally:
        with suppress(*JVM_GONE):
            spark.stop()
