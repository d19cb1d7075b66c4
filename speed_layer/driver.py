"""A Spark driver with its streaming queries, from the locks to the last micro-batch.

The jobs define the queries.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import structlog
from pyspark.sql import SparkSession

from runtime.connect import cassandra_session
from runtime.process.job import exit_failed, run_until_stopped, signal_ready
from runtime.process.lock import lock_folder
from runtime.spark.jvm_lock import lock_folder_in_jvm
from speed_layer.input.session import Driver, StartOptions, build_streaming_session
from speed_layer.keeper import JVM_GONE, QueryDefinition, QuerySupervisor
from speed_layer.liveness import Liveness
from speed_layer.progress.start_position import compute_floor
from tally.config.settings import Settings
from tally.errors import TallyError

WATCH_SECONDS = 0.2
_STUCK = "no progress while records wait; start the process again"
log = structlog.get_logger()


def main(
    title: str,
    planned: Callable[[], Sequence[QueryDefinition]],
    begin: StartOptions = StartOptions(compute_floor),
    adapted: Callable[[Settings], Settings] = lambda own: own,
) -> int:
    """Keep these queries running until SIGTERM or SIGINT; return the exit code
    (runtime/process/job.py).

    `adapted` adapts the settings to the job.
    """

    def work(stop: threading.Event) -> None:
        queries = planned()
        run(adapted(Settings.load()), queries, begin, stop)

    return run_until_stopped(title, work)


def run(
    settings: Settings,
    planned: Sequence[QueryDefinition],
    begin: StartOptions,
    stop: threading.Event,
) -> None:
    """Run the queries until `stop` is set.

    Raises TallyError when a query cannot start, refuses, or fails repeatedly.
    """
    with ExitStack() as held:
        # The locks come first: a second driver is refused before it has opened anything. Spark
        # itself would not notice, since on a local disk its logs are created by a rename, which two
        # drivers can win.
        for query in planned:
            held.enter_context(lock_folder(settings.checkpoint(query.name)))
        session = held.enter_context(cassandra_session(settings))
        driver = Driver(held.enter_context(_spark(settings)), session, settings, begin)
        for query in planned:
            # The lock above ends with this Python. The JVM of a killed process lives for about 2 s,
            # and a quick restart would write beside it (seen).
            held.enter_context(lock_folder_in_jvm(driver.spark, settings.checkpoint(query.name)))
        keepers = [held.enter_context(_run_query(driver, query)) for query in planned]
        signal_ready(settings)
        log.info("ready")
        watch(keepers, Liveness(driver, keepers), stop)


def watch(keepers: Sequence[QuerySupervisor], liveness: Liveness, stop: threading.Event) -> None:
    """Watch the queries until `stop` is set.

    Raises TallyError with the first query that cannot go on. Ends the process when it is stuck.
    """
    try:
        while not stop.wait(WATCH_SECONDS):
            for keeper in keepers:
                keeper.check()
            liveness.beat()
            if liveness.is_stuck:
                # At once: the task that hangs would keep the session from closing, too.
                names = ", ".join(keeper.definition.name for keeper in keepers)
                exit_failed(f"query {names}", _STUCK)
        # The queries have ended with the JVM and cannot be restarted here: a new process has a new
        # JVM.
    except JVM_GONE as error:
        raise TallyError(
            f"the JVM of the driver has ended ({error}); start the job again"
        ) from error


@contextmanager
def _run_query(driver: Driver, planned: QueryDefinition) -> Iterator[QuerySupervisor]:
    keeper = QuerySupervisor(driver, planned)
    try:
        # Inside the try: a start that fails late, without Cassandra, may have left a running query.
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
