"""Reads the topic once for all listeners, and separately for a listener that is further back."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event, Thread
from typing import NamedTuple, Protocol

import structlog

from alerting.stream.place import StreamPosition, clamp_position, position_at
from alerting.stream.recent import RecentRecords
from runtime.http.work_pools import STREAMS
from runtime.kafka.tail import Tail, TopicRecord, read_topic_id, read_topic_state
from tally.config.settings import Settings
from tally.errors import StackError, ViewsUnreachable

TOPIC = "alerts"
READY_SECONDS = 10.0
# The records of one read from Kafka for a listener that is further back, and the parallel reads.
MAX_RECORDS, MAX_READS = 500, 4
_CATCH_UP_SECONDS = 10.0
_POLL_SECONDS, _RETRY_SECONDS = 0.5, 1.0
# The interval of the checks whether the topic was re-created.
_TOPIC_CHECK_SECONDS = 5.0

log = structlog.get_logger()


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
        ...

    async def read_after(self, place: StreamPosition) -> StreamBatch:
        """Some of the records behind a place, at least one if any is known."""
        ...

    @property
    def change_event(self) -> asyncio.Event:
        """An event that is set once there are more records than now."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether the topic is no longer read."""
        ...


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
        """The place behind the records read so far, after the first read of the topic.

        Raises ViewsUnreachable.
        """
        self._begin()
        try:
            async with asyncio.timeout(READY_SECONDS):
                while self._recent is None:
                    await self._changed.wait()
        except TimeoutError as error:
            raise ViewsUnreachable(
                "the alerts cannot be read; look at `tally status` and ask again"
            ) from error
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

    def _begin(self) -> None:
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = Thread(target=self._run, name="alerts", daemon=True)
            self._thread.start()

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
        self._post(partial(self._replace, recent))
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

    def _replace(self, recent: RecentRecords) -> None:
        self._recent = recent
        self._notify()

    def _add(
        self, recent: RecentRecords, records: Sequence[TopicRecord], until: dict[int, int]
    ) -> None:
        recent.add(records, until)
        self._notify()

    def _notify(self) -> None:
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
        while (
            len(records) < MAX_RECORDS
            and len(tail.ended) < len(place.offsets)
            and time.monotonic() < deadline
        ):
            records += tail.read(MAX_RECORDS - len(records), _POLL_SECONDS)
        return StreamBatch(records, place.advance_to(tail.until))
