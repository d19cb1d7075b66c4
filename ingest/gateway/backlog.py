"""How much of the raw topics the normaliser has not read yet, and how old it is.

Beyond a limit the gateway takes no more.

Raw records are deleted behind the normaliser only, so what waits is safe; what may not happen is
that the disk fills up with it.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from runtime.connect import NORMALISER_GROUP, kafka_consumer
from runtime.topics import Lane, bounds_of, committed_positions, partition_numbers
from tally.settings import Settings

_ASK_SECONDS = 3.0
_FETCH_SECONDS = 2.0
_SYSLOG_ERROR = 3
# One message is wanted of each partition, and not what comes after it.
_SMALL_FETCHES = {
    "fetch.message.max.bytes": 1000,
    "queued.max.messages.kbytes": 1024,
    "log_level": _SYSLOG_ERROR,
}
_EVERY_SECONDS = 1.0
# How long a look that failed leaves the last one valid.
_PATIENCE_SECONDS = 30.0
_END_SECONDS = 5.0


@dataclass(frozen=True)
class WaitingMessages:
    """Raw messages that the normaliser has not read.

    How many, and the arrival of the first as a Unix time (None without any).
    """

    messages: int
    oldest_at: float | None


class Backlog:
    """Looks at the raw topics with a consumer that never joins its group. For one thread."""

    def __init__(self, settings: Settings, topics: tuple[str, ...]) -> None:
        self._topics = topics
        self._consumer: Consumer = kafka_consumer(settings, NORMALISER_GROUP, _SMALL_FETCHES)
        self._patience_seconds = settings.raw_backlog_seconds / 2
        # Offset, and a time before which nothing at or after it has arrived.
        self._not_before: dict[Lane, tuple[int, float]] = {}

    def look(self) -> WaitingMessages:
        """What waits now. Raises KafkaException."""
        unread = {place: (first, end) for place, first, end in self._unread()}
        self._note_arrivals(unread)
        # Without an entry the broker did not tell in time: asked for again with the next look.
        oldest = [
            self._not_before[place][1]
            for place, (first, end) in unread.items()
            if first < end and place in self._not_before
        ]
        return WaitingMessages(
            sum(end - first for first, end in unread.values()), min(oldest, default=None)
        )

    def close(self) -> None:
        """Ends the consumer."""
        self._consumer.close()

    def _unread(self) -> Iterator[tuple[Lane, int, int]]:
        lanes = [
            (topic, number)
            for topic in self._topics
            for number in partition_numbers(self._consumer, topic, _ASK_SECONDS)
        ]
        for done in committed_positions(self._consumer, lanes, _ASK_SECONDS):
            lane = done.topic, done.partition
            low, end = bounds_of(self._consumer, lane, _ASK_SECONDS)
            yield lane, min(max(done.offset, low), end), end

    def _note_arrivals(self, unread: dict[Lane, tuple[int, int]]) -> None:
        now = time.time()
        wanted = {
            place: first
            for place, (first, end) in unread.items()
            if first < end and self._must_be_read(place, first, now)
        }
        for place, (first, end) in unread.items():
            if first == end:
                self._not_before[place] = (first, now)
        if wanted:
            self._read_arrivals(wanted)

    def _must_be_read(self, place: Lane, first: int, now: float) -> bool:
        """Whether the known bound is too old to tell.

        What comes later in a partition arrived later.
        """
        offset, at = self._not_before.get(place, (-1, 0.0))
        return offset != first and now - at > self._patience_seconds

    def _read_arrivals(self, wanted: dict[Lane, int]) -> None:
        self._consumer.assign(
            [TopicPartition(topic, number, first) for (topic, number), first in wanted.items()]
        )
        missing, deadline = set(wanted), time.monotonic() + _FETCH_SECONDS
        while missing and time.monotonic() < deadline:
            message = self._consumer.poll(_FETCH_SECONDS / 10)
            if message is None or message.error() is not None or message.offset() is None:
                continue
            place = (str(message.topic()), int(message.partition() or 0))
            if place in missing:
                missing.discard(place)
                self._not_before[place] = (wanted[place], message.timestamp()[1] / 1000)
        self._consumer.unassign()


@dataclass(frozen=True)
class BacklogBounds:
    """When too much waits.

    Age in seconds, bytes, and bytes that the disk under `folder` must have left.
    """

    seconds: float
    bytes: float
    folder: Path

    @classmethod
    def of(cls, settings: Settings) -> "BacklogBounds":
        """The bounds of these settings."""
        return cls(settings.raw_backlog_seconds, settings.raw_backlog_bytes, settings.home)

    def refusal(self, waiting: WaitingMessages, ordinary_bytes: float) -> str | None:
        """Why nothing more is taken, None while there is room."""
        age = max(0.0, time.time() - waiting.oldest_at) if waiting.oldest_at is not None else 0.0
        size = waiting.messages * ordinary_bytes
        # The answer holds until the next look has ended: by then the limit must not have been
        # passed either.
        if age > self.seconds - min(2 * _EVERY_SECONDS, self.seconds / 4):
            return (
                f"messages wait to be read for {age:,.0f} s,"
                f" at most {self.seconds:,.0f} s are allowed; start the normaliser"
            )
        if size > self.bytes:
            return (
                f"about {size:,.0f} bytes wait to be read, at most {self.bytes:,.0f} are allowed;"
                " start the normaliser, or wait for it"
            )
        if _disk_is_full(self.folder):
            return "the disk is nearly full; make room"
        return None


class BacklogWatch:
    """The last look at the backlog, made once a second by a thread of its own.

    So nobody who asks waits for Kafka.
    """

    def __init__(
        self, look: Callable[[], WaitingMessages], refusal: Callable[[WaitingMessages], str | None]
    ) -> None:
        self._look, self._refusal = look, refusal
        self._ended = Event()
        self._thread = Thread(target=self._go_on, name="backlog", daemon=True)
        self._seen_at = time.monotonic()
        self._refused: str | None = None
        self._unreachable: str | None = "not looked at yet"
        self.waiting = WaitingMessages(0, None)

    def begin(self) -> None:
        """Looks from now on."""
        self._thread.start()

    def end(self) -> bool:
        """Whether the last look has ended, within seconds."""
        self._ended.set()
        self._thread.join(_END_SECONDS)
        return not self._thread.is_alive()

    def _go_on(self) -> None:
        self.look()
        while not self._ended.wait(_EVERY_SECONDS):
            self.look()

    def look(self) -> None:
        """One look; a failed one leaves what is known as it was, for `_PATIENCE_SECONDS`."""
        try:
            self.waiting = self._look()
        except KafkaException as error:
            # What the code means; the text of the error itself names addresses.
            self._unreachable = KafkaError(error.args[0].code()).str()
            return
        self._refused = self._refusal(self.waiting)
        self._unreachable, self._seen_at = None, time.monotonic()

    def refusal(self) -> str | None:
        """Why nothing more is taken now, None while there is room.

        What is not known for long counts as too much.
        """
        if time.monotonic() - self._seen_at > _PATIENCE_SECONDS:
            return "it is not known how much waits to be read; Kafka does not answer"
        return self._refused

    def kafka(self) -> tuple[bool, str]:
        """Whether the brokers answered the last look and have the topics, and a line about it."""
        silent = time.monotonic() - self._seen_at > _PATIENCE_SECONDS
        return not silent and self._unreachable is None, self._unreachable or (
            "does not answer" if silent else "reachable"
        )


def _disk_is_full(folder: Path) -> bool:
    """Whether the disk on which the folder lies or would lie is nearly full.

    Less than a tenth and less than a gibibyte of it is free.
    """
    existing = next(
        place
        for place in (
            folder.absolute(),
            *folder.absolute().parents,
        )
        if place.exists()
    )
    usage = shutil.disk_usage(existing)
    return usage.free < min(usage.total / 10, 2**30)
