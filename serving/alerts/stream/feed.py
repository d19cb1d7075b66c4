"""The topic read once for all who listen, and again for who is further back."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event, Thread
from typing import NamedTuple, Protocol

import structlog

from runtime.tail import Tail, TailedRecord, topic_id_now, topic_now
from runtime.work_pools import STREAMS
from serving.alerts.stream.place import StreamPlace, mended, place_at
from serving.alerts.stream.recent import Recent
from tally.errors import StackError, ViewsUnreachable
from tally.settings import Settings

TOPIC = "alerts"
READY_SECONDS = 10.0
# What one reading from Kafka brings to somebody who is further back, and how many read at once.
MOST_AT_ONCE, MOST_READING = 500, 4
_CATCH_UP_SECONDS = 10.0
_POLL_SECONDS, _AGAIN_SECONDS = 0.5, 1.0
# How soon it is seen that the topic was made anew.
_LOOK_SECONDS = 5.0

log = structlog.get_logger()


class StreamBatch(NamedTuple):
    """What lies behind a place, and the place behind it.

    With `is_gap` something that the place had not passed is gone, and `until` is where to go on.
    """

    records: Sequence[TailedRecord]
    until: StreamPlace
    is_gap: bool = False


class Feed(Protocol):
    """Where listeners get records from."""

    async def here(self) -> StreamPlace:
        """The place behind what has been read. Raises ViewsUnreachable."""
        ...

    async def behind(self, place: StreamPlace) -> StreamBatch:
        """Some of what lies behind a place, at least one record if any is known."""
        ...

    @property
    def changed(self) -> asyncio.Event:
        """Set once there is more than now."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether nobody reads the topic any more."""
        ...


class TopicFeed:
    """A Feed of the topic in Kafka: one thread reads its end, from the first listener on."""

    def __init__(self, settings: Settings, topic: str = TOPIC) -> None:
        self._settings, self._topic = settings, topic
        self._recent: Recent | None = None
        self._changed = asyncio.Event()
        self._reading = asyncio.Semaphore(MOST_READING)
        self._stopped = Event()
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def here(self) -> StreamPlace:
        """Waits for the first look at the topic. Raises ViewsUnreachable."""
        self._begin()
        try:
            async with asyncio.timeout(READY_SECONDS):
                while self._recent is None:
                    await self._changed.wait()
        except TimeoutError as error:
            raise ViewsUnreachable(
                "the alerts cannot be read; look at `tally status` and ask again"
            ) from error
        return self._recent.place

    async def behind(self, place: StreamPlace) -> StreamBatch:
        """From memory; from Kafka for a place that is further back, or is gone."""
        if self._recent is not None and self._recent.holds(place):
            return StreamBatch(self._recent.behind(place), self._recent.place)
        # Few at once: each is a connection of its own, with its buffers.
        async with self._reading:
            try:
                return await STREAMS.run(read_behind, self._settings, self._topic, place)
            except StackError as error:
                # The connection stays: a browser does not come again after an error.
                log.warning("alerts cannot be read", reason=str(error))
                await asyncio.sleep(_AGAIN_SECONDS)
                return StreamBatch((), place)

    @property
    def changed(self) -> asyncio.Event:
        """Another one after each change."""
        return self._changed

    @property
    def has_ended(self) -> bool:
        """Whether it was closed."""
        return self._stopped.is_set()

    def close(self) -> None:
        """Ends the thread."""
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
            self._stopped.wait(_AGAIN_SECONDS)

    def _follow(self) -> None:
        """Read the topic's end until it is another topic. Raises StackError."""
        # From the end: who wants more than what comes now reads it from Kafka.
        now = topic_now(self._settings, self._topic)
        recent = Recent(place_at(now.topic_id, [one.end for one in now.bounds]))
        self._post(partial(self._replace, recent))
        begin = dict(enumerate(recent.place.offsets))
        with Tail(self._settings, self._topic, begin) as tail:
            looked, told = time.monotonic(), dict(tail.until)
            while not self._stopped.is_set():
                records, until = tail.read(MOST_AT_ONCE, _POLL_SECONDS), dict(tail.until)
                if until != told:
                    self._post(partial(self._add, recent, records, until))
                    told = until
                if time.monotonic() - looked > _LOOK_SECONDS:
                    looked = time.monotonic()
                    if topic_id_now(self._settings, self._topic) != now.topic_id:
                        return

    # All that listeners see changes on their own event loop: nobody sees half of it.
    def _post(self, change: Callable[[], None]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(change)
        except RuntimeError:
            # The loop has ended before close(): there are no listeners any more.
            self._stopped.set()

    def _replace(self, recent: Recent) -> None:
        self._recent = recent
        self._tell()

    def _add(
        self,
        recent: Recent,
        records: Sequence[TailedRecord],
        until: dict[int, int],
    ) -> None:
        recent.add(records, until)
        self._tell()

    def _tell(self) -> None:
        before, self._changed = self._changed, asyncio.Event()
        before.set()


def read_behind(settings: Settings, topic: str, place: StreamPlace) -> StreamBatch:
    """What Kafka has behind a place, at most MOST_AT_ONCE records. Raises StackError."""
    now = topic_now(settings, topic)
    going_on = mended(place, now.topic_id, now.bounds)
    if going_on != place:
        return StreamBatch((), going_on, is_gap=True)
    # What an open transaction holds back has no end, and is waited for elsewhere.
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    records: list[TailedRecord] = []
    with Tail(settings, topic, dict(enumerate(place.offsets))) as tail:
        while (
            len(records) < MOST_AT_ONCE
            and len(tail.ended) < len(place.offsets)
            and time.monotonic() < deadline
        ):
            records += tail.read(MOST_AT_ONCE - len(records), _POLL_SECONDS)
        return StreamBatch(records, place.reaching(tail.until))
