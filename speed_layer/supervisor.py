"""The supervisor of one streaming query, which waits after a failure and starts it again."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from runtime.cassandra.writes import TRANSIENT_ERRORS
from runtime.kafka.offsets import TopicOffsets
from runtime.process.job import describe_error
from runtime.spark.checkpoint import read_committed_position, root_cause
from speed_layer.checkpoint_files import (
    StartPosition,
    resolve_start_position,
    verify_topic_identity,
)
from speed_layer.progress import Progress
from speed_layer.session import Driver, read_retained_offsets, refuse_data_loss
from tally.config.settings import Settings
from tally.errors import DataLoss, TallyError, UnrecoverableError
from tally.families.family import Family

# Python gets a failure as text only: these words of Spark's source mean that records are gone.
DATA_LOSS_SIGNS = (
    "data loss",
    "data was lost",
    "may have been lost",
    "KAFKA_DATA_LOSS",
    "OffsetOutOfRange",
)
# A JVM that has died has stopped its queries.
JVM_GONE = (Py4JError, ConnectionError)
# Half a minute of waiting in all, besides the tries; then the process ends: a new one may succeed.
TRIES, LONGEST_WAIT_SECONDS = 5, 16.0
log = structlog.get_logger()


@dataclass(frozen=True)
class QueryDefinition:
    """A query to start: its name (also of the checkpoint), topics, and how to start it."""

    name: str
    topics: tuple[str, ...]
    # Those whose views it keeps.
    families: tuple[Family, ...]
    start: Callable[[Driver, DataFrame, StartPosition], StreamingQuery]
    # The most records of one micro-batch.
    most_records: Callable[[Settings], int]


class QuerySupervisor:
    """Starts the query, passes on its progress, and restarts it after a failure."""

    def __init__(self, driver: Driver, definition: QueryDefinition) -> None:
        self._driver, self.definition = driver, definition
        self._query: StreamingQuery | None = None
        self._progress: Progress | None = None
        self._failures, self._next_try = 0, 0.0

    @property
    def position(self) -> TopicOffsets:
        """First offset not yet in a committed micro-batch; empty before the first start."""
        return self._progress.position if self._progress else {}

    def start(self) -> None:
        """Start the query where its checkpoint ends. Raises TallyError when it must not run."""
        driver, definition = self._driver, self.definition
        settings, checkpoint = driver.settings, driver.settings.checkpoint(definition.name)
        retained = {topic: read_retained_offsets(settings, topic) for topic in definition.topics}
        start_position = resolve_start_position(
            driver,
            definition.name,
            definition.families,
            {topic: offsets.earliest for topic, offsets in retained.items()},
        )
        position = {**start_position.offsets, **(read_committed_position(checkpoint) or {})}
        for topic, needed in position.items():
            refuse_data_loss(needed, topic, retained[topic])
        # Valid offsets prove nothing: a topic re-created or cut may have grown beyond them.
        memory = verify_topic_identity(settings, checkpoint, retained)
        log.info("query", name=definition.name, floors=start_position.floors, from_offsets=position)
        records = driver.start_options.read_stream(
            driver.spark, settings, start_position.offsets, definition.most_records(settings)
        )
        self._query = definition.start(driver, records, start_position)
        self._progress = Progress(driver, self._query, definition.families, memory, start_position)
        self._progress.record_start(position)

    def check(self) -> None:
        """Pass on progress; restart a failed query when its wait is over.

        Raises TallyError when it refuses to go on, or has failed too often without a micro-batch
        in between.
        """
        # A start calls brokers and Cassandra too: their absence counts as a failure of the query.
        try:
            if self._query is not None:
                self._pass_on_progress(self._query)
            elif time.monotonic() >= self._next_try:
                self.start()
        except KafkaException as error:
            reason = f"query {self.definition.name}: {describe_error(error)}"
            self._schedule_retry(TallyError(reason))
        except TRANSIENT_ERRORS as error:
            reason = f"query {self.definition.name}: Cassandra: {error}"
            self._schedule_retry(TallyError(f"{reason}; `tally doctor` looks for the cause"))
        except TallyError as error:
            self._schedule_retry(error)

    def stop(self) -> None:
        """Stop the query, if its JVM still exists."""
        if self._query is not None:
            with suppress(*JVM_GONE):
                self._query.stop()

    def _pass_on_progress(self, query: StreamingQuery) -> None:
        assert self._progress is not None
        self._progress.take()
        # A micro-batch has ended since the start: only consecutive failures use up the tries.
        if self._progress.batch >= 0:
            self._failures = 0
        if not query.isActive:
            raise query_error(self.definition.name, str(query.exception()))

    def _schedule_retry(self, error: TallyError) -> None:
        # A restart would only meet a refusal again (records gone, another log, a missing record).
        if isinstance(error, UnrecoverableError) or self._failures >= TRIES:
            raise error
        self.stop()
        self._query, wait = None, min(2.0**self._failures, LONGEST_WAIT_SECONDS)
        self._failures, self._next_try = self._failures + 1, time.monotonic() + wait
        log.warning(
            "failing",
            query=self.definition.name,
            failures=self._failures,
            next_try_seconds=wait,
            reason=str(error),
        )


def query_error(name: str, reason: str) -> TallyError:
    """The error of a query that has ended, as one line, with advice when records are gone."""
    text = " ".join(reason.split())
    if any(sign.lower() in text.lower() for sign in DATA_LOSS_SIGNS):
        return DataLoss(
            f"query {name}: Kafka no longer holds what it needs;"
            f" move its checkpoint folder away: {text[:500]}"
        )
    return TallyError(
        f"query {name} failed: {root_cause(reason)};"
        " start again once that is mended: the batch is repeated"
    )
