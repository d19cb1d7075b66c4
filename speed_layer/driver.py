"""A Spark driver with its streaming queries, from the locks to the last micro-batch.

The jobs define the queries. The heartbeat shows the progress of queries and Spark tasks, and
whether records wait for them.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import structlog
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from runtime.connect import cassandra_session
from runtime.kafka.offsets import TopicOffsets
from runtime.process.heartbeat import Heartbeat
from runtime.process.job import exit_failed, run_until_stopped, signal_ready
from runtime.process.lock import lock_folder
from runtime.spark.jvm_lock import lock_folder_in_jvm
from speed_layer.input.session import Driver, StartOptions, build_streaming_session
from speed_layer.input.source import read_ends_quickly
from speed_layer.progress.start_position import compute_floor
from speed_layer.supervisor import JVM_GONE, QueryDefinition, QuerySupervisor
from tally.config.settings import Settings
from tally.errors import TallyError

WATCH_SECONDS = 0.2
_STUCK = "no progress while records wait; start the process again"
# A look at the topics is one request to the brokers for each partition, a beat writes a small file.
BEAT_SECONDS, LOOK_SECONDS = 1.0, 5.0
# Longer than any pause between the attempts of a query, and than a task takes to change its counts.
MAX_STUCK_BEATS = 180
log = structlog.get_logger()


class Liveness:
    """Writes the heartbeat from the driver's own loop."""

    def __init__(self, driver: Driver, supervisors: Sequence[QuerySupervisor]) -> None:
        self._driver, self._supervisors = driver, supervisors
        self._heartbeat = Heartbeat(driver.settings.heartbeat_file)
        self._next_beat = self._next_look = 0.0
        self._is_behind = self._records_wait = True
        self._progress: object = None
        self._stuck_beats = 0

    @property
    def is_stuck(self) -> bool:
        """Whether no query has progressed for MAX_STUCK_BEATS seconds while records waited.

        Seen with Spark 4: when the thread that serves a task's state dies of a full disk, the
        Python worker waits for its answer forever. Only a new process gets out of that.
        """
        return self._stuck_beats >= MAX_STUCK_BEATS

    def beat(self) -> None:
        """Write a heartbeat, at most once a second.

        Every few seconds the brokers are asked whether records wait.
        """
        now = time.monotonic()
        if now < self._next_beat:
            return
        if now >= self._next_look:
            self._look_at_topics()
            self._next_look = time.monotonic() + LOOK_SECONDS
        progress = (self._positions(), stage_progress(self._driver.spark))
        # Beats are counted, not seconds: a process that was frozen as a whole can beat first.
        has_moved = progress != self._progress or not self._records_wait
        self._stuck_beats = 0 if has_moved else self._stuck_beats + 1
        self._progress = progress
        self._heartbeat.beat(progress, self._is_behind)
        self._next_beat = now + BEAT_SECONDS

    def _positions(self) -> list[TopicOffsets]:
        return [supervisor.position for supervisor in self._supervisors]

    def _look_at_topics(self) -> None:
        """Note whether any topic ends elsewhere than its query has read.

        While the brokers do not answer records may wait, but no query is stuck for that.
        """
        try:
            ends = read_ends_quickly(
                self._driver.settings,
                {
                    topic
                    for supervisor in self._supervisors
                    for topic in supervisor.definition.topics
                },
            )
        except KafkaException:
            self._is_behind, self._records_wait = True, False
            return
        self._is_behind = self._records_wait = any(
            offsets != ends[topic]
            for supervisor in self._supervisors
            for topic, offsets in supervisor.position.items()
        )


def stage_progress(spark: SparkSession) -> list[tuple[int, ...]]:
    """The id and counts of each running stage.

    The counts are of ended tasks, of records read, read from a shuffle and written to one.

    They change while a task works.
    """
    # Positions move once per micro-batch, and one of a backlog takes long: these numbers
    # distinguish it from one that hangs.
    stages = spark.sparkContext._jsc.sc().statusStore().activeStages()
    running = (stages.apply(number) for number in range(stages.size()))
    return [
        (
            stage.stageId(),
            stage.numCompleteTasks(),
            stage.inputRecords(),
            stage.shuffleReadRecords(),
            stage.shuffleWriteRecords(),
        )
        for stage in running
    ]


def main(
    title: str,
    make_definitions: Callable[[], Sequence[QueryDefinition]],
    start_options: StartOptions = StartOptions(compute_floor),
    adapt_settings: Callable[[Settings], Settings] = lambda settings: settings,
) -> int:
    """Keep these queries running until SIGTERM or SIGINT; return the exit code
    (runtime/process/job.py).

    `adapt_settings` adapts the settings to the job.
    """

    def work(stop: threading.Event) -> None:
        definitions = make_definitions()
        run(adapt_settings(Settings.load()), definitions, start_options, stop)

    return run_until_stopped(title, work)


def run(
    settings: Settings,
    definitions: Sequence[QueryDefinition],
    start_options: StartOptions,
    stop: threading.Event,
) -> None:
    """Run the queries until `stop` is set.

    Raises TallyError when a query cannot start, refuses, or fails repeatedly.
    """
    with ExitStack() as resources:
        # The locks come first: a second driver is refused before it has opened anything. Spark
        # itself would not notice, since on a local disk its logs are created by a rename, which two
        # drivers can win.
        for definition in definitions:
            resources.enter_context(lock_folder(settings.checkpoint(definition.name)))
        session = resources.enter_context(cassandra_session(settings))
        driver = Driver(resources.enter_context(_spark(settings)), session, settings, start_options)
        for definition in definitions:
            # The lock above ends with this Python. The JVM of a killed process lives for about 2 s,
            # and a quick restart would write beside it (seen).
            resources.enter_context(
                lock_folder_in_jvm(driver.spark, settings.checkpoint(definition.name))
            )
        supervisors = [
            resources.enter_context(_run_query(driver, definition)) for definition in definitions
        ]
        signal_ready(settings)
        log.info("ready")
        watch(supervisors, Liveness(driver, supervisors), stop)


def watch(
    supervisors: Sequence[QuerySupervisor], liveness: Liveness, stop: threading.Event
) -> None:
    """Watch the queries until `stop` is set.

    Raises TallyError with the first query that cannot go on. Ends the process when it is stuck.
    """
    try:
        while not stop.wait(WATCH_SECONDS):
            for supervisor in supervisors:
                supervisor.check()
            liveness.beat()
            if liveness.is_stuck:
                # At once: the task that hangs would keep the session from closing, too.
                names = ", ".join(supervisor.definition.name for supervisor in supervisors)
                exit_failed(f"query {names}", _STUCK)
        # The queries have ended with the JVM and cannot be restarted here: a new process has a new
        # JVM.
    except JVM_GONE as error:
        raise TallyError(
            f"the JVM of the driver has ended ({error}); start the job again"
        ) from error


@contextmanager
def _run_query(driver: Driver, definition: QueryDefinition) -> Iterator[QuerySupervisor]:
    supervisor = QuerySupervisor(driver, definition)
    try:
        # Inside the try: a start that fails late, without Cassandra, may have left a running query.
        supervisor.start()
        yield supervisor
    finally:
        supervisor.stop()


@contextmanager
def _spark(settings: Settings) -> Iterator[SparkSession]:
    spark = build_streaming_session(settings)
    try:
        yield spark
    finally:
        with suppress(*JVM_GONE):
            spark.stop()
