"""One streaming query kept running, while the others go on.

A failure is waited out and the query started again.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from runtime.causes import root_cause
from runtime.checkpoint import committed_position
from runtime.job import reason_of
from runtime.offsets import TopicOffsets
from runtime.writes import TRANSIENT
from speed_layer.handover import Handover, settle_handover
from speed_layer.lastread import checked_memory
from speed_layer.progress import Progress
from speed_layer.session import Driver
from speed_layer.source import refuse_data_loss, retained
from tally.errors import DataLoss, Refused, TallyError
from tally.families import Family
from tally.settings import Settings

# Python is told of a query's failure as text alone: with these words of Spark's Kafka source the
# records are gone.
LOST = ("data loss", "data was lost", "may have been lost", "KAFKA_DATA_LOSS", "OffsetOutOfRange")
# A JVM that has died has stopped its queries.
JVM_GONE = (Py4JError, ConnectionError)
# Half a minute of waiting in all, beside the time that each try takes; then the process ends, and a
# new one may do better.
TRIES, LONGEST_WAIT_SECONDS = 5, 16.0
log = structlog.get_logger()


@dataclass(frozen=True)
class Planned:
    """One query to start.

    Its name (also of its checkpoint), its topics, the families whose views it keeps, how to start
    it. `most_records` is by the settings the most that one micro-batch takes.
    """

    name: str
    topics: tuple[str, ...]
    families: tuple[Family, ...]
    start: Callable[[Driver, DataFrame, Handover], StreamingQuery]
    most_records: Callable[[Settings], int]


class Keeper:
    """Starts the query, passes on its progress, starts it again after a failure."""

    def __init__(self, driver: Driver, planned: Planned) -> None:
        self._driver, self.planned = driver, planned
        self._query: StreamingQuery | None = None
        self._progress: Progress | None = None
        self._failures, self._next_try = 0, 0.0

    @property
    def position(self) -> TopicOffsets:
        """First offset not yet in a committed micro-batch; empty before the first start."""
        return self._progress.position if self._progress else {}

    def start(self) -> None:
        """The query runs, from where its checkpoint ends. Raises TallyError when it may not."""
        driver, planned = self._driver, self.planned
        settings, checkpoint = driver.settings, driver.settings.checkpoint(planned.name)
        held = {topic: retained(settings, topic) for topic in planned.topics}
        begins = settle_handover(
            driver,
            planned.name,
            planned.families,
            {topic: one.earliest for topic, one in held.items()},
        )
        position = {**begins.starting, **(committed_position(checkpoint) or {})}
        for topic, needed in position.items():
            refuse_data_loss(needed, topic, held[topic])
        # Offsets that a topic holds prove nothing: it may have been made anew, or cut, and have
        # grown beyond them.
        memory = checked_memory(settings, checkpoint, held)
        log.info("query", name=planned.name, floors=begins.floors, from_offsets=position)
        records = driver.begin.read(
            driver.spark, settings, begins.starting, planned.most_records(settings)
        )
        self._query = planned.start(driver, records, begins)
        self._progress = Progress(driver, self._query, planned.families, memory, begins)
        self._progress.begin(position)

    def look(self) -> None:
        """Progress is passed on; a query that has failed is started again when its time has come.

        Raises TallyError when it refuses to go on, or has failed too often without a micro-batch
        between.
        """
        # A start asks the brokers and Cassandra itself: their absence then counts as a failure of
        # the query, and is waited out like one.
        try:
            self._look()
        except KafkaException as error:
            self._failed(TallyError(f"query {self.planned.name}: {reason_of(error)}"))
        except TRANSIENT as error:
            self._failed(
                TallyError(
                    f"query {self.planned.name}: Cassandra: {error};"
                    " `tally doctor` looks for the cause"
                )
            )
        except TallyError as error:
            self._failed(error)

    def stop(self) -> None:
        """The query has ended, if its JVM is there to end it."""
        if self._query is not None:
            with suppress(*JVM_GONE):
                self._query.stop()

    def _look(self) -> None:
        if self._query is None:
            if time.monotonic() >= self._next_try:
                self.start()
            return
        assert self._progress is not None
        self._progress.take()
        # It has ended a micro-batch since its start: only failures in a row use up the tries.
        if self._progress.batch >= 0:
            self._failures = 0
        if not self._query.isActive:
            raise failure(self.planned.name, str(self._query.exception()))

    def _failed(self, error: TallyError) -> None:
        # What is refused (records gone, another log, a record missing) a new start would only meet
        # again.
        if isinstance(error, Refused) or self._failures >= TRIES:
            raise error
        self.stop()
        self._query, wait = None, min(2.0**self._failures, LONGEST_WAIT_SECONDS)
        self._failures, self._next_try = self._failures + 1, time.monotonic() + wait
        log.warning(
            "failing",
            query=self.planned.name,
            failures=self._failures,
            next_try_seconds=wait,
            reason=str(error),
        )


def failure(name: str, reason: str) -> TallyError:
    """Why a query has ended, as one line, with what to do when records are gone."""
    text = " ".join(reason.split())
    if any(sign.lower() in text.lower() for sign in LOST):
        return DataLoss(
            f"query {name}: Kafka no longer holds what it needs;"
            f" move its checkpoint folder away: {text[:500]}"
        )
    return TallyError(
        f"query {name} failed: {root_cause(reason)};"
        " start again once that is mended: the batch is repeated"
    )
