"""The heartbeat of a driver.

It shows the progress of its queries and Spark tasks, and whether records wait for them.
"""

import time
from collections.abc import Sequence

from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from runtime.kafka.offsets import TopicOffsets, find_unread
from runtime.process.heartbeat import Heartbeat
from speed_layer.input.session import Driver
from speed_layer.input.source import read_ends_quickly
from speed_layer.keeper import QuerySupervisor

# A look is one request to the brokers for each partition, a beat writes a small file.
BEAT_SECONDS, LOOK_SECONDS = 1.0, 5.0
# Longer than any pause between the attempts of a query, and than a task takes to change its counts.
MAX_STUCK_BEATS = 180


class Liveness:
    """Writes the heartbeat from the driver's own loop."""

    def __init__(self, driver: Driver, keepers: Sequence[QuerySupervisor]) -> None:
        self._driver, self._keepers = driver, keepers
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
        return [keeper.position for keeper in self._keepers]

    def _look_at_topics(self) -> None:
        """Note whether any topic holds more than its query has read.

        While the brokers do not answer records may wait, but no query is stuck for that.
        """
        try:
            held = read_ends_quickly(
                self._driver.settings,
                {topic for keeper in self._keepers for topic in keeper.definition.topics},
            )
        except KafkaException:
            self._is_behind, self._records_wait = True, False
            return
        self._is_behind = self._records_wait = any(
            find_unread(held[topic], places)
            for keeper in self._keepers
            for topic, places in keeper.position.items()
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
