"""Reads the topic once for all listeners, and separately for a listener that is further back.

Each listener gets each event once, with its next place.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Event, Thread
from typing import NamedTuple, Protocol

import structlog

from alerting.stream.place import StreamPosition, clamp_position, position_at
from runtime.http.work_pools import STREAMS
from runtime.kafka.tail import Tail, TopicRecord, read_topic_id, read_topic_state
from tally.config.settings import Settings
from tally.errors import StackError, ViewsUnreachable

TOPIC = "alerts"
READY_SECONDS = 10.0
# The records held in memory: one has about 1.5 kB.
MAX_RECENT = 2_000
# The records of one read from Kafka for a listener that is further back, and the parallel reads.
MAX_RECORDS, MAX_READS = 500, 4
_CATCH_UP_SECONDS = 10.0
_POLL_SECONDS, _RETRY_SECONDS = 0.5, 1.0
# The interval of the checks whether the topic was re-created.
_TOPIC_CHECK_SECONDS = 5.0
# Without a place now and then, a client whose filter drops everything would keep a place that ages
# out of the topic.
POSITION_SECONDS = 30.0

log = structlog.get_logger()


class RecentRecords:
    """The records read last, at most `most` of them, and the place behind them.

    Listeners have no queues here: each asks for the records behind its place, and a listener that
    falls behind the held records reads from Kafka again. So a slow client costs no memory.
    """

    def __init__(self, place: StreamPosition, most: int = MAX_RECENT) -> None:
        self.position = place
        self._floor = place
        self._records: deque[TopicRecord] = deque()
        self._max_records = most

    def add(self, records: Iterable[TopicRecord], until: Mapping[int, int]) -> None:
        """Add new records, in order within each partition; `until`: how far each is read now."""
        self._records.extend(records)
        self.position = self.position.advance_to(until)
        while len(self._records) > self._max_records:
            gone = self._records.popleft()
            self._floor = self._floor.after(gone.partition, gone.offset)

    def covers(self, place: StreamPosition) -> bool:
        """Whether all records between the place and the last read record are held."""
        # The offsets of a re-created topic may look like those of the old one.
        if place.topic_id != self.position.topic_id:
            return False
        ends = zip(self._floor.offsets, place.offsets, self.position.offsets, strict=True)
        return all(floor <= at <= until for floor, at, until in ends)

    def records_after(self, place: StreamPosition) -> list[TopicRecord]:
        """The records that the place has not passed, in the order of arrival."""
        offsets = place.offsets
        return [record for record in self._records if record.offset >= offsets[record.partition]]


class StreamBatch(NamedTuple):
    """The records behind a place, and the place behind them.

    With `is_gap`, records that the place had not passed are gone, and `until` is the place to
    continue from.
    """

    records: Sequence[TopicRecord]
    until: StreamPosition
    is_gap: bool = False


class Feed(Protocol):
    """A source of records for listeners."""

    async def current_position(self) -> StreamPosition:
        """The place behind the records read so far. Raises ViewsUnreachable."""

    async def read_after(self, place: StreamPosition) -> StreamBatch:
        """Some of the records behind a place, at least one if any is known."""

    @property
    def change_event(self) -> asyncio.Event:
        """An event that is set once there are more records than now."""

    @property
    def has_ended(self) -> bool:
        """Whether the topic is no longer read."""


class TopicFeed:
    """A Feed of the topic in Kafka: one thread follows its end, from the first listener on."""

    def __init__(self, settings: Settings, topic: str = TOPIC) -> None:
        self._settings, self._topic = settings, topic
        self._recent: RecentRecords | None = None
        self._changed = asyncio.Event()
        self._reading = asyncio.Semaphore(MAX_READS)
        self._stopped = Event()
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def current_position(self) -> StreamPosition:
        """The place behind the records that were read. Raises ViewsUnreachable."""
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = Thread(target=self._run, name="alerts", daemon=True)
            self._thread.start()
        try:
            async with asyncio.timeout(READY_SECONDS):
                while self._recent is None:
                    await self._changed.wait()
        except TimeoutError as error:
            problem = "the alerts cannot be read; look at `tally status` and ask again"
            raise ViewsUnreachable(problem) from error
        return self._recent.position

    async def read_after(self, place: StreamPosition) -> StreamBatch:
        """Records from memory, or from Kafka for a place that is further back, or is gone."""
        if self._recent is not None and self._recent.covers(place):
            return StreamBatch(self._recent.records_after(place), self._recent.position)
        # Few reads at once: each has a connection of its own, with its buffers.
        async with self._reading:
            try:
                return await STREAMS.run(read_batch, self._settings, self._topic, place)
            except StackError as error:
                # The connection stays open, because a browser does not reconnect after an error.
                log.warning("alerts cannot be read", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                return StreamBatch((), place)

    @property
    def change_event(self) -> asyncio.Event:
        """The event of the next change; each change has an event of its own."""
        return self._changed

    @property
    def has_ended(self) -> bool:
        """Whether the feed was closed."""
        return self._stopped.is_set()

    def close(self) -> None:
        """End the thread."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._follow()
            except StackError as error:
                log.warning("alerts cannot be read", reason=str(error))
            self._stopped.wait(_RETRY_SECONDS)

    def _follow(self) -> None:
        """Follow the topic's end until the topic is re-created. Raises StackError."""
        # It starts at the end: a listener that needs older records reads them from Kafka.
        now = read_topic_state(self._settings, self._topic)
        recent = RecentRecords(position_at(now.topic_id, [bounds.end for bounds in now.bounds]))
        self._post(partial(self._add, recent, (), {}))
        begin = dict(enumerate(recent.position.offsets))
        with Tail(self._settings, self._topic, begin) as tail:
            checked_at, last_until = time.monotonic(), dict(tail.until)
            while not self._stopped.is_set():
                records, until = tail.read(MAX_RECORDS, _POLL_SECONDS), dict(tail.until)
                if until != last_until:
                    self._post(partial(self._add, recent, records, until))
                    last_until = until
                if time.monotonic() - checked_at > _TOPIC_CHECK_SECONDS:
                    checked_at = time.monotonic()
                    if read_topic_id(self._settings, self._topic) != now.topic_id:
                        return

    # Changes run on the listeners' event loop, so that no listener sees a half-made change.
    def _post(self, change: Callable[[], None]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(change)
        except RuntimeError:
            # The loop has ended before close(), so there are no listeners any more.
            self._stopped.set()

    def _add(
        self, recent: RecentRecords, records: Sequence[TopicRecord], until: dict[int, int]
    ) -> None:
        self._recent = recent
        recent.add(records, until)
        before, self._changed = self._changed, asyncio.Event()
        before.set()


def read_batch(settings: Settings, topic: str, place: StreamPosition) -> StreamBatch:
    """The records in Kafka behind a place, at most MAX_RECORDS. Raises StackError."""
    now = read_topic_state(settings, topic)
    going_on = clamp_position(place, now.topic_id, now.bounds)
    if going_on != place:
        return StreamBatch((), going_on, is_gap=True)
    # An open transaction may hold back records without limit; the caller waits for those.
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    records: list[TopicRecord] = []
    with Tail(settings, topic, dict(enumerate(place.offsets))) as tail:
        while len(records) < MAX_RECORDS and len(tail.ended) < len(place.offsets):
            if time.monotonic() >= deadline:
                break
            records += tail.read(MAX_RECORDS - len(records), _POLL_SECONDS)
        return StreamBatch(records, place.advance_to(tail.until))


class FeedEvent(NamedTuple):
    """A message, or a gap behind the place `lost_position` that is gone, or the place alone."""

    position: StreamPosition
    message: bytes | None = None
    lost_position: StreamPosition | None = None


async def listen(
    feed: Feed,
    place: StreamPosition,
    is_wanted: Callable[[bytes], bool],
    place_seconds: float = POSITION_SECONDS,
) -> AsyncIterator[FeedEvent]:
    """The events behind the place; they end only when the feed ends.

    The place itself comes first: a connection that breaks before the first event resumes there.
    Nothing is fetched before the last event is consumed, so a slow subscriber has no queue.
    """
    yield FeedEvent(place)
    sent_at = time.monotonic()
    while not feed.has_ended:
        # Taken before the read, so that a change between the two ends the wait below.
        changed = feed.change_event
        batch = await feed.read_after(place)
        # The gap comes before the events behind it, so that they do not seem complete.
        if batch.is_gap:
            yield FeedEvent(batch.until, lost_position=place)
            place, sent_at = batch.until, time.monotonic()
            continue
        for record in batch.records:
            place = place.after(record.partition, record.offset)
            if is_wanted(record.value):
                yield FeedEvent(place, record.value)
                sent_at = time.monotonic()
        place = place.advance_to(dict(enumerate(batch.until.offsets)))
        due = sent_at + place_seconds - time.monotonic()
        if due <= 0:
            yield FeedEvent(place)
            sent_at = time.monotonic()
        elif not batch.records:
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), due)
