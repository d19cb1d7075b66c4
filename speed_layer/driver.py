"""A Spark driver with the streaming queries of a job, from the locks to the last micro-batch.

The heartbeat shows the progress of queries and Spark tasks, and whether records wait for them.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

import structlog
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from runtime.connect import cassandra_session
from runtime.process.files import lock_folder
from runtime.process.heartbeat import Heartbeat
from runtime.process.job import exit_failed, run_until_stopped, signal_ready
from runtime.spark.session import lock_folder_in_jvm
from speed_layer.floor import compute_floor
from speed_layer.session import Driver, StartOptions, build_streaming_session, read_ends_quickly
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
        """Write a heartbeat, at most once a second."""
        now = time.monotonic()
        if now < self._next_beat:
            return
        if now >= self._next_look:
            self._look_at_topics()
            self._next_look = time.monotonic() + LOOK_SECONDS
        positions = [supervisor.position for supervisor in self._supervisors]
        progress = (positions, stage_progress(self._driver.spark))
        # Beats are counted, not seconds: a process that was frozen as a whole can beat first.
        has_moved = progress != self._progress or not self._records_wait
        self._stuck_beats = 0 if has_moved else self._stuck_beats + 1
        self._progress = progress
        self._heartbeat.beat(progress, self._is_behind)
        self._next_beat = now + BEAT_SECONDS

    def _look_at_topics(self) -> None:
        """Note whether any topic ends elsewhere than its query has read."""
        definitions = (supervisor.definition for supervisor in self._supervisors)
        topics = {topic for definition in definitions for topic in definition.topics}
        try:
            ends = read_ends_quickly(self._driver.settings, topics)
        except KafkaException:
            # While the brokers do not answer records may wait, but no query is stuck for that.
            self._is_behind, self._records_wait = True, False
            return
        self._is_behind = self._records_wait = any(
            offsets != ends[topic]
            for supervisor in self._supervisors
            for topic, offsets in supervisor.position.items()
        )


def stage_progress(spark: SparkSession) -> list[tuple[int, ...]]:
    """The id of each running stage, and counts that change while a task works.

    They are of ended tasks, of records read, read from a shuffle and written to one.
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
    """Keep these queries running until SIGTERM or SIGINT; return the exit code."""

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
    """Run the queries until `stop` is set. Raises TallyError when one cannot start or go on."""
    with ExitStack() as resources:
        # The locks come first: a second driver is refused before it has opened anything. Spark
        # itself would not notice, since on a local disk its logs are created by a rename, which two
        # drivers can win.
        for definition in definitions:
            resources.enter_context(lock_folder(settings.checkpoint(definition.name)))
        session = resources.enter_context(cassandra_session(settings))
        spark = build_streaming_session(settings)
        resources.callback(_stop_spark, spark)
        driver = Driver(spark, session, settings, start_options)
        for definition in definitions:
            # The lock above ends with this Python. The JVM of a killed process lives for about 2 s,
            # and a quick restart would write beside it (seen).
            checkpoint = settings.checkpoint(definition.name)
            resources.enter_context(lock_folder_in_jvm(driver.spark, checkpoint))
        supervisors = [QuerySupervisor(driver, definition) for definition in definitions]
        for supervisor in supervisors:
            # Before the start: one that fails late, without Cassandra, may leave a running query.
            resources.callback(supervisor.stop)
            supervisor.start()
        signal_ready(settings)
        log.info("ready")
        watch(supervisors, Liveness(driver, supervisors), stop)


def watch(
    supervisors: Sequence[QuerySupervisor], liveness: Liveness, stop: threading.Event
) -> None:
    """Watch the queries until `stop` is set. Raises TallyError with the first that cannot go on."""
    try:
        while not stop.wait(WATCH_SECONDS):
            for supervisor in supervisors:
                supervisor.check()
            liveness.beat()
            if liveness.is_stuck:
                # At once: the task that hangs would keep the session from closing, too.
                names = ", ".join(supervisor.definition.name for supervisor in supervisors)
                exit_failed(f"query {names}", _STUCK)
        # The queries have ended with the JVM and cannot be restarted here.
    except JVM_GONE as error:
        reason = f"the JVM of the driver has ended ({error}); start the job again"
        raise TallyError(reason) from error


def _stop_spark(spark: SparkSession) -> None:
    with suppress(*JVM_GONE):
        spark.stop()
