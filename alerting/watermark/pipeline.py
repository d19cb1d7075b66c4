"""The real pipeline: Kafka for how far records have come, Cassandra for how far they are read."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException

from alerting.watermark.watermark import FamilyPositions, PipelineSnapshot, SpeedPosition
from runtime.connect import NORMALISER_GROUP, kafka_consumer
from runtime.kafka.offsets import Offsets, TopicOffsets
from runtime.kafka.reader import skip_control_records
from runtime.kafka.topics import read_partition_bounds, read_topic_bounds, read_topic_positions
from runtime.process.job import describe_error
from schemas.loader import topics
from serving.storage.connection import Connection, CqlRow
from tally.alerts.tick import SpeedEpoch
from tally.config.settings import Settings
from tally.errors import StackError, ViewsUnreachable

RULES = "alert-rules"
# The timeout of one request. A snapshot that takes longer than a tick only delays the next one.
ANSWER_SECONDS = 5.0
# It reads all epochs: the highest decides, also after a rollback to an earlier definition.
_SPEED_EPOCHS = "SELECT partition, epoch, until, floor FROM speed_epoch WHERE family = ?"
_FLIP_TOKEN = "SELECT flip_token FROM batch_pointer WHERE family = ? LIMIT 1"

_CqlRows = list[CqlRow]
log = structlog.get_logger()


class ViewProgress:
    """Reads from Cassandra how far data has come, in a thread of its own; never raises."""

    def __init__(self, settings: Settings) -> None:
        self._connection = Connection(settings)
        self._runner = asyncio.Runner()

    def speed_positions(self, families: Sequence[str]) -> FamilyPositions:
        """How far the speed layer has read each partition, under its highest epoch."""
        answers = self._rows(_SPEED_EPOCHS, families)
        return {name: _highest_epochs(rows) for name, rows in answers.items()}

    def flip_tokens(self, families: Sequence[str]) -> dict[str, int]:
        """The fencing token of the last rebuild that has published, by family.

        The token counts the rebuilds that were begun, 0 before the first. The read is SERIAL, so
        that a flip with an unknown outcome is completed first.
        """
        answers = self._rows(_FLIP_TOKEN, families, is_serial=True)
        return {name: _first_token(rows) for name, rows in answers.items()}

    def close(self) -> None:
        """End the connection."""
        self._connection.close()
        self._runner.close()

    def _rows(
        self, statement: str, families: Sequence[str], is_serial: bool = False
    ) -> dict[str, _CqlRows]:
        try:
            queries = [self._connection.rows(statement, (name,), is_serial) for name in families]
            return dict(zip(families, self._runner.run(_gather(queries)), strict=True))
        except ViewsUnreachable as error:
            log.warning("ticks stand still", reason=str(error.__cause__ or error))
            return {}


class LivePipeline:
    """How far records have come, by family and partition; what nobody answers is absent.

    It is for one snapshot only, because a client never forgets what its brokers said.
    `previous_positions`: the raw positions at the previous snapshot.
    """

    def __init__(
        self,
        consumers: tuple[Consumer, Consumer],
        settings: Settings,
        views: ViewProgress,
        families: Sequence[str],
        previous_positions: TopicOffsets,
    ) -> None:
        self._everything, self._committed = consumers
        self._settings, self._views, self._families = settings, views, families
        self._previous_positions = previous_positions
        # The positions as the brokers report them, for the next snapshot.
        self.reported_positions: TopicOffsets = {}

    def raw_ends(self) -> TopicOffsets:
        """The ends with open transactions, whose records may have arrived, but cannot be read."""
        return self._by_family(lambda name: self._ends(self._everything, _raw_topic(name)))

    def positions(self) -> TopicOffsets:
        """The committed, stable positions: during a transaction, brokers do not report old ones.

        Positions that stand still before the end are moved over transaction markers, behind which
        the normaliser has nothing to commit.
        """
        self.reported_positions = self._by_family(
            lambda name: read_topic_positions(self._committed, _raw_topic(name), ANSWER_SECONDS)
        )
        return self._by_family(self._skip_markers, self.reported_positions)

    def canonical_ends(self) -> TopicOffsets:
        """The high watermarks of the canonical topics."""
        return self._by_family(lambda name: self._ends(self._everything, name))

    def speed_positions(self) -> FamilyPositions:
        """How far the speed layer has read, by rows that a quorum has acknowledged."""
        return self._views.speed_positions(self._families)

    def stable_ends(self) -> TopicOffsets:
        """The last stable offsets of the canonical topics."""
        return self._by_family(lambda name: self._ends(self._committed, name))

    def rules_until(self) -> int:
        """The end of the topic of rules, 0 while the topic is missing. Raises KafkaException."""
        found = self._everything.list_topics(RULES, ANSWER_SECONDS).topics[RULES]
        if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return 0
        return read_partition_bounds(self._everything, (RULES, 0), ANSWER_SECONDS).end

    def _skip_markers(self, name: str) -> Offsets:
        topic, committed = _raw_topic(name), self.reported_positions[name]
        before = self._previous_positions.get(name, {})
        standing = dict(committed.items() & before.items())
        if not standing:
            return committed
        log_bounds = read_topic_bounds(self._committed, topic, ANSWER_SECONDS)
        return {**committed, **skip_control_records(self._settings, topic, standing, log_bounds)}

    def _ends(self, consumer: Consumer, topic: str) -> Offsets:
        bounds = read_topic_bounds(consumer, topic, ANSWER_SECONDS).items()
        return {number: partition.end for number, partition in bounds}

    def _by_family(
        self, ask: Callable[[str], Offsets], families: Mapping[str, Any] | None = None
    ) -> dict[str, Offsets]:
        found: dict[str, Offsets] = {}
        for name in self._families if families is None else families:
            try:
                found[name] = ask(name)
            except (KafkaException, StackError) as error:
                log.warning("tick stands still", family=name, reason=describe_error(error))
                # The other families would fail too, and each would take as long.
                if not _is_about_one_topic(error):
                    break
        return found


@contextmanager
def open_pipeline(
    settings: Settings,
    views: ViewProgress,
    families: Sequence[str],
    previous_positions: TopicOffsets,
) -> Iterator[LivePipeline]:
    """A pipeline for one snapshot, with clients of its own."""
    uncommitted = {"isolation.level": "read_uncommitted"}
    with (
        kafka_consumer(settings, "ticks-offsets", uncommitted) as everything,
        # It uses the group's name but never joins the group, so no partitions are reassigned.
        kafka_consumer(settings, NORMALISER_GROUP) as committed,
    ):
        yield LivePipeline((everything, committed), settings, views, families, previous_positions)


def _raw_topic(family: str) -> str:
    return topics()[family]["raw"]


def probe_pipeline(
    pipeline: LivePipeline, families: Iterable[str], at: int
) -> dict[str, PipelineSnapshot]:
    """One snapshot of each family, taken now; services that do not answer are absent from it.

    `at`: an instant (ms since 1970, UTC) that has passed by the brokers' clock.
    """
    # In the direction in which records travel: a record that is not seen at a later stage was seen
    # at an earlier one. In the opposite order, a moving record could slip past unseen.
    raw_ends = pipeline.raw_ends()
    positions = pipeline.positions()
    canonical_ends = pipeline.canonical_ends()
    speed_positions = pipeline.speed_positions()
    stable_ends = pipeline.stable_ends()
    return {
        name: PipelineSnapshot(
            at,
            raw_ends.get(name, {}),
            positions.get(name, {}),
            canonical_ends.get(name, {}),
            speed_positions.get(name, {}),
            stable_ends.get(name, {}),
        )
        for name in families
    }


def _first_token(rows: Sequence[CqlRow]) -> int:
    [token] = rows[0] if rows else (None,)
    return token or 0


def _highest_epochs(rows: Sequence[CqlRow]) -> dict[int, SpeedPosition]:
    # In order of the epoch, so that the highest one of each partition stays.
    ordered = sorted(rows, key=lambda row: row[1])
    return {
        number: SpeedPosition(until, SpeedEpoch(epoch, floor))
        for number, epoch, until, floor in ordered
    }


def _is_about_one_topic(error: KafkaException | StackError) -> bool:
    unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
    return isinstance(error, KafkaException) and error.args[0].code() == unknown


async def _gather(queries: Sequence[Coroutine[Any, Any, _CqlRows]]) -> list[_CqlRows]:
    return await asyncio.gather(*queries)
