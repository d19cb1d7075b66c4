"""How many raw messages the normaliser has not read; beyond a limit the gateway takes no more.

Unread messages are safe, because they are never deleted, but they must not fill up the disk.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from runtime.connect import NORMALISER_GROUP, kafka_consumer
from runtime.kafka.topics import (
    PartitionId,
    partition_numbers,
    read_committed_positions,
    read_partition_bounds,
)
from tally.config.settings import Settings

_REQUEST_SECONDS = 3.0
_FETCH_SECONDS = 2.0
_SYSLOG_ERROR = 3
# Only one message of each partition is needed, and none after it.
_SMALL_FETCHES = {
    "fetch.message.max.bytes": 1000,
    "queued.max.messages.kbytes": 1024,
    "log_level": _SYSLOG_ERROR,
}
_EVERY_SECONDS = 1.0
# How long the last successful look stays valid while later ones fail.
_VALID_SECONDS = 30.0
_STOP_SECONDS = 5.0


class WaitingMessages(NamedTuple):
    """How many raw messages the normaliser has not read; `oldest_at`: Unix time of the first."""

    messages: int
    oldest_at: float | None


class Backlog:
    """Reads offsets of raw topics, in one thread, with a consumer that never joins its group."""

    def __init__(self, settings: Settings, topics: tuple[str, ...]) -> None:
        self._topics = topics
        self._consumer: Consumer = kafka_consumer(settings, NORMALISER_GROUP, _SMALL_FETCHES)
        self._bound_max_age_seconds = settings.raw_backlog_seconds / 2
        # By partition: an offset, and a time before which no message from it on has arrived.
        self._arrival_bounds: dict[PartitionId, tuple[int, float]] = {}

    def measure(self) -> WaitingMessages:
        """Return what waits now. Raises KafkaException."""
        unread = {partition_id: (first, end) for partition_id, first, end in self._unread_offsets()}
        self._note_arrivals(unread)
        # Where an entry is missing the broker did not answer in time; the next look asks again.
        waiting = [partition_id for partition_id, (first, end) in unread.items() if first < end]
        bounds = self._arrival_bounds
        oldest = [bounds[partition_id][1] for partition_id in waiting if partition_id in bounds]
        count = sum(end - first for first, end in unread.values())
        return WaitingMessages(count, min(oldest, default=None))

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _unread_offsets(self) -> Iterator[tuple[PartitionId, int, int]]:
        partition_ids = [
            (topic, number)
            for topic in self._topics
            for number in partition_numbers(self._consumer, topic, _REQUEST_SECONDS)
        ]
        for done in read_committed_positions(self._consumer, partition_ids, _REQUEST_SECONDS):
            partition_id = done.topic, done.partition
            low, end = read_partition_bounds(self._consumer, partition_id, _REQUEST_SECONDS)
            yield partition_id, min(max(done.offset, low), end), end

    def _note_arrivals(self, unread: dict[PartitionId, tuple[int, int]]) -> None:
        now, stale = time.time(), dict[PartitionId, int]()
        for partition_id, (first, end) in unread.items():
            offset, at = self._arrival_bounds.get(partition_id, (-1, 0.0))
            if first == end:
                self._arrival_bounds[partition_id] = (first, now)
            # A bound holds for later offsets too, because they arrived later; but not for long.
            elif offset != first and now - at > self._bound_max_age_seconds:
                stale[partition_id] = first
        if stale:
            self._read_arrivals(stale)

    def _read_arrivals(self, first_offsets: dict[PartitionId, int]) -> None:
        starts = [TopicPartition(*place, first) for place, first in first_offsets.items()]
        self._consumer.assign(starts)
        missing, deadline = set(first_offsets), time.monotonic() + _FETCH_SECONDS
        while missing and time.monotonic() < deadline:
            message = self._consumer.poll(_FETCH_SECONDS / 10)
            if message is None or message.error() is not None or message.offset() is None:
                continue
            partition_id = (str(message.topic()), int(message.partition() or 0))
            if partition_id in missing:
                missing.discard(partition_id)
                arrived_at = message.timestamp()[1] / 1000
                self._arrival_bounds[partition_id] = (first_offsets[partition_id], arrived_at)
        self._consumer.unassign()


@dataclass(frozen=True)
class BacklogBounds:
    """Beyond these too much waits: `seconds` of the oldest message, `bytes` of all, a full disk."""

    seconds: float
    bytes: float
    folder: Path

    def refusal_reason(self, waiting: WaitingMessages, ordinary_bytes: float) -> str | None:
        """Return why no more messages are taken; None while there is room."""
        age = max(0.0, time.time() - waiting.oldest_at) if waiting.oldest_at is not None else 0.0
        size = waiting.messages * ordinary_bytes
        # The answer stays in use until the next look has ended; by then the limit must not have
        # been passed either.
        if age > self.seconds - min(2 * _EVERY_SECONDS, self.seconds / 4):
            most = f"at most {self.seconds:,.0f} s are allowed; start the normaliser"
            return f"messages wait to be read for {age:,.0f} s, {most}"
        if size > self.bytes:
            most = f"at most {self.bytes:,.0f} are allowed; start the normaliser, or wait for it"
            return f"about {size:,.0f} bytes wait to be read, {most}"
        if _disk_is_full(self.folder):
            return "the disk is nearly full; make room"
        return None


class BacklogMonitor:
    """Keeps the last look at the backlog, one a second in a thread: no request waits for Kafka."""

    def __init__(
        self, look: Callable[[], WaitingMessages], refusal: Callable[[WaitingMessages], str | None]
    ) -> None:
        self._measure, self._decide_refusal = look, refusal
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="backlog", daemon=True)
        self._measured_at = time.monotonic()
        self._refusal_reason: str | None = None
        self._unreachable: str | None = "not looked at yet"
        self.waiting = WaitingMessages(0, None)

    def start(self) -> None:
        """Start the thread that looks."""
        self._thread.start()

    def stop(self) -> bool:
        """Stop looking; returns whether the last look has ended within seconds."""
        self._stopped.set()
        self._thread.join(_STOP_SECONDS)
        return not self._thread.is_alive()

    def _run(self) -> None:
        self.refresh()
        while not self._stopped.wait(_EVERY_SECONDS):
            self.refresh()

    def refresh(self) -> None:
        """Look once; after a failure the last result stays valid for `_VALID_SECONDS`."""
        try:
            self.waiting = self._measure()
        except KafkaException as error:
            # Only the meaning of the code is kept: the error's own text names addresses.
            self._unreachable = KafkaError(error.args[0].code()).str()
            return
        self._refusal_reason = self._decide_refusal(self.waiting)
        self._unreachable, self._measured_at = None, time.monotonic()

    def refusal_reason(self) -> str | None:
        """Why no messages are taken now; None if they are. A long unknown backlog is too large."""
        if time.monotonic() - self._measured_at > _VALID_SECONDS:
            return "it is not known how much waits to be read; Kafka does not answer"
        return self._refusal_reason

    def kafka_state(self) -> tuple[bool, str]:
        """Whether the brokers answered the last look and have the topics, and a line about it."""
        silent = time.monotonic() - self._measured_at > _VALID_SECONDS
        detail = self._unreachable or ("does not answer" if silent else "reachable")
        return not silent and self._unreachable is None, detail


def _disk_is_full(folder: Path) -> bool:
    """Whether less than a tenth and a gibibyte is free of the disk where the folder is to lie."""
    ancestors = (folder.absolute(), *folder.absolute().parents)
    usage = shutil.disk_usage(next(ancestor for ancestor in ancestors if ancestor.exists()))
    return usage.free < min(usage.total / 10, 2**30)
