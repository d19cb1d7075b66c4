"""The real pipeline: Kafka asked how far records have come, and Cassandra how far they are read."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException

from runtime.connect import NORMALISER_GROUP, kafka_consumer
from runtime.job import reason_of
from runtime.markers import over_markers
from runtime.offsets import Offsets, TopicOffsets
from runtime.topics import bounds, bounds_of, positions_of
from schemas.loader import topics
from serving.alerts.ticks.look import FamilyReach
from serving.alerts.ticks.walk import ReadReach
from serving.merge.connection import Connection, CqlRow
from tally.alerts.tick import SpeedEpoch
from tally.errors import StackError, ViewsUnreachable
from tally.settings import Settings

RULES = "alert-rules"
# Of one question. A look that takes longer than a tick delays the next one, and nothing else.
ANSWER_SECONDS = 5.0
# Rows of all epochs: whoever rolls back to an earlier definition is told of by the highest.
_REACHED = "SELECT partition, epoch, until, floor FROM speed_epoch WHERE family = ?"
_FLIPPED = "SELECT flip_token FROM batch_pointer WHERE family = ? LIMIT 1"

_Answer = TypeVar("_Answer")
log = structlog.get_logger()


class Views:
    """What Cassandra knows, asked from a thread of its own; nothing is raised."""

    def __init__(self, settings: Settings) -> None:
        self._connection = Connection(settings)
        self._runner = asyncio.Runner()

    def reached(self, families: Sequence[str]) -> FamilyReach:
        """How far the speed layer has read each partition, under its highest epoch."""
        answers = self._rows(_REACHED, families)
        return {name: _reaches(rows) for name, rows in answers.items()}

    def flips(self, families: Sequence[str]) -> dict[str, int]:
        """By family the fencing token of the last rebuild that has published.

        A count of those that were begun, 0 before the first. SERIAL: a flip of which nobody knows
        whether it was made is brought to its end first.
        """
        answers = self._rows(_FLIPPED, families, is_serial=True)
        return {name: _first_token(rows) for name, rows in answers.items()}

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()
        self._runner.close()

    def _rows(
        self, statement: str, families: Sequence[str], is_serial: bool = False
    ) -> dict[str, list[CqlRow]]:
        try:
            asked = [self._connection.rows(statement, (name,), is_serial) for name in families]
            return dict(zip(families, self._runner.run(_all(asked)), strict=True))
        except ViewsUnreachable as error:
            log.warning("ticks stand still", reason=str(error.__cause__ or error))
            return {}


class BrokersAndViews:
    """A pipeline (look.py) for one look: a client keeps for ever what it was told of its brokers.

    `stood`: raw positions at the look before.
    """

    def __init__(
        self,
        consumers: tuple[Consumer, Consumer],
        settings: Settings,
        views: Views,
        families: Sequence[str],
        stood: TopicOffsets,
    ) -> None:
        self._everything, self._committed = consumers
        self._settings, self._views, self._families = settings, views, families
        self._stood = stood
        # As told by the brokers, for the next look.
        self.told_positions: TopicOffsets = {}

    def raw_ends(self) -> TopicOffsets:
        """With what lies in open transactions: it may have arrived, and is read by nobody."""
        return self._by_family(lambda name: self._ends(self._everything, raw_topic(name)))

    def positions(self) -> TopicOffsets:
        """Committed, and stable: of a transaction under way the brokers do not tell the old ones.

        Where they stand still before the end, they are moved over markers of transactions, behind
        which the normaliser has nothing to commit.
        """
        self.told_positions = self._by_family(
            lambda name: positions_of(self._committed, raw_topic(name), ANSWER_SECONDS)
        )
        return self._by_family(self._moved, self.told_positions)

    def written(self) -> TopicOffsets:
        """High watermarks."""
        return self._by_family(lambda name: self._ends(self._everything, name))

    def reached(self) -> FamilyReach:
        """Rows that were acknowledged, by a quorum."""
        return self._views.reached(self._families)

    def stable(self) -> TopicOffsets:
        """Last stable offsets."""
        return self._by_family(lambda name: self._ends(self._committed, name))

    def rules_until(self) -> int:
        """End of the topic of rules, 0 while there is none. Raises KafkaException."""
        found = self._everything.list_topics(RULES, ANSWER_SECONDS).topics[RULES]
        if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return 0
        return bounds_of(self._everything, (RULES, 0), ANSWER_SECONDS).end

    def _moved(self, name: str) -> Offsets:
        topic, told = raw_topic(name), self.told_positions[name]
        before = self._stood.get(name, {})
        standing = dict(told.items() & before.items())
        if not standing:
            return told
        kept = bounds(self._committed, topic, ANSWER_SECONDS)
        return {**told, **over_markers(self._settings, topic, standing, kept)}

    def _ends(self, consumer: Consumer, topic: str) -> Offsets:
        return {number: at.end for number, at in bounds(consumer, topic, ANSWER_SECONDS).items()}

    def _by_family(
        self, ask: Callable[[str], Offsets], families: Mapping[str, Any] | None = None
    ) -> dict[str, Offsets]:
        found: dict[str, Offsets] = {}
        for name in self._families if families is None else families:
            try:
                found[name] = ask(name)
            except (KafkaException, StackError) as error:
                log.warning("tick stands still", family=name, reason=reason_of(error))
                # Of the others nobody would say more, and each would take as long.
                if not _is_about_one_topic(error):
                    break
        return found


@contextmanager
def pipeline(
    settings: Settings, views: Views, families: Sequence[str], stood: TopicOffsets
) -> Iterator[BrokersAndViews]:
    """The pipeline for one look, with clients of its own."""
    uncommitted = {"isolation.level": "read_uncommitted"}
    with (
        kafka_consumer(settings, "ticks-offsets", uncommitted) as everything,
        # By the group's name alone, never a member of it: nobody's partitions move.
        kafka_consumer(settings, NORMALISER_GROUP) as committed,
    ):
        yield BrokersAndViews((everything, committed), settings, views, families, stood)


def raw_topic(family: str) -> str:
    """The raw topic of a family's source."""
    return topics()[family]["raw"]


def _first_token(rows: Sequence[CqlRow]) -> int:
    [token] = rows[0] if rows else (None,)
    return token or 0


def _reaches(rows: Sequence[CqlRow]) -> dict[int, ReadReach]:
    found = {}
    # In order of the epoch, so that of each partition the highest stays.
    for number, epoch, until, floor in sorted(rows, key=lambda row: row[1]):
        found[number] = ReadReach(until, SpeedEpoch(epoch, floor))
    return found


def _is_about_one_topic(error: KafkaException | StackError) -> bool:
    return (
        isinstance(error, KafkaException)
        and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    )


async def _all(asked: Sequence[Coroutine[Any, Any, _Answer]]) -> list[_Answer]:
    return await asyncio.gather(*asked)
