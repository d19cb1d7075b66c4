"""Looks at what ticks, positions, deliveries and heartbeats say, in a thread of its own."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Self

import msgspec
import structlog
from confluent_kafka import KafkaException

from runtime.bookmarks import Bookmark
from runtime.connect import kafka_consumer
from runtime.heartbeat import restore_seconds
from runtime.job import reason_of
from runtime.tail import Tail, TailedRecord, topic_id_now, topic_now
from runtime.topics import committed_positions
from serving.alerts.gauges import AlertFacts
from tally.alerts.delivery.records import TickTime, UndeliveredMessages, parsed_kept
from tally.alerts.tick import NO_TICK, Tick, merged
from tally.errors import TallyError
from tally.settings import Settings

TICKS, DELIVERIES, EVALUATOR = "ticks", "alert-deliveries", "evaluator"
LOOK_SECONDS = 5.0
# Behind so many records lies the last that a tick has brought about, but in a storm: then the next
# one tells.
_BACK = 1_000
_MOST_AT_ONCE, _POLL_SECONDS, _ASK_SECONDS = 500, 0.3, 10.0
_FIRST_LOOK_SECONDS = 3.0

log = structlog.get_logger()


class AlertWatch:
    """The facts as they were at the last look; the first one is begun by who asks first."""

    def __init__(self, settings: Settings, look_seconds: float = LOOK_SECONDS) -> None:
        self._settings, self._look_seconds = settings, look_seconds
        self._stopped, self._has_looked = Event(), Event()
        self._starting = Lock()
        self._thread: Thread | None = None
        self._facts = AlertFacts()

    def facts(self) -> AlertFacts:
        """What was known last; empty while nobody has answered yet. Waits for the first look."""
        with self._starting:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="alert-watch", daemon=True)
                self._thread.start()
        self._has_looked.wait(_FIRST_LOOK_SECONDS)
        # Once: beside brokers that do not answer each scrape would wait so long.
        self._has_looked.set()
        return self._facts

    def close(self) -> None:
        """Ends the thread."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with _WatchLook(self._settings) as look:
                    self._follow(look)
            # What was known stays: its age says that nobody has answered since.
            except KafkaException as error:
                log.warning("alerts are not watched", reason=reason_of(error))
            except TallyError as error:
                log.warning("alerts are not watched", reason=str(error))
            self._stopped.wait(self._look_seconds)

    def _follow(self, look: "_WatchLook") -> None:
        while not self._stopped.is_set():
            self._facts = look.facts()
            self._has_looked.set()
            self._stopped.wait(self._look_seconds)


class _WatchLook:
    """Connections that stay from look to look. Each method raises StackError or KafkaException."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._open = settings, ExitStack()
        self._ticks: dict[int, Tick] = {}
        self._undelivered: dict[int, Mapping[str, UndeliveredMessages]] = {}

    def __enter__(self) -> Self:
        try:
            now = {name: topic_now(self._settings, name) for name in (TICKS, DELIVERIES)}
            self._ids = {name: one.topic_id for name, one in now.items()}
            self._tails = {name: self._open.enter_context(self._tail(name)) for name in now}
            # Of the evaluators' group, and no member of it.
            group = kafka_consumer(self._settings, EVALUATOR)
            self._group: Any = self._open.enter_context(group)
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def facts(self) -> AlertFacts:
        """What is said now. Raises TallyError also where a topic was made anew."""
        for name, topic_id in self._ids.items():
            if topic_id_now(self._settings, name) != topic_id:
                raise TallyError(f"topic {name} was made anew; it is read again")
        for one in _new_records(self._tails[TICKS]):
            self._take_tick(one)
        for one in _new_records(self._tails[DELIVERIES]):
            self._take_delivery(one)
        restored = restore_seconds(_folder(self._settings), self._settings.stalled_after_seconds)
        return AlertFacts({**self._ticks}, self._judged(), {**self._undelivered}, restored)

    def _tail(self, topic: str) -> Tail:
        bounds = topic_now(self._settings, topic).bounds
        begin = [max(one.earliest, one.end - _BACK) for one in bounds]
        return Tail(self._settings, topic, dict(enumerate(begin)))

    def _take_tick(self, record: TailedRecord) -> None:
        try:
            tick = Tick.read(record.value)
        except msgspec.DecodeError:
            # The evaluator says so in its log.
            return
        known = self._ticks.get(record.partition, NO_TICK)
        self._ticks[record.partition] = merged(known, tick)

    def _take_delivery(self, record: TailedRecord) -> None:
        try:
            kept = parsed_kept(record.value)
        except msgspec.DecodeError:
            # Of a record that is deleted there is no value either.
            return
        if isinstance(kept, TickTime):
            self._undelivered[record.partition] = kept.undelivered

    def _judged(self) -> dict[int, int]:
        """By partition when the tick came that the evaluators have judged last, ms since 1970."""
        lanes = [(TICKS, number) for number in self._tails[TICKS].until]
        found: dict[int, int] = {}
        for at in committed_positions(self._group, lanes, _ASK_SECONDS):
            bookmark = Bookmark.read(at.metadata)
            # Of a topic that was made anew since, nothing was judged yet.
            if bookmark and bookmark.last and bookmark.topic_id == self._ids[TICKS]:
                found[at.partition] = bookmark.last.timestamp_ms
        return found


def _new_records(tail: Tail) -> Iterator[TailedRecord]:
    """What has come since the last call, up to the ends."""
    deadline = time.monotonic() + _ASK_SECONDS
    tail.ended.clear()
    while len(tail.ended) < len(tail.until) and time.monotonic() < deadline:
        yield from tail.read(_MOST_AT_ONCE, _POLL_SECONDS)


def _folder(settings: Settings) -> Path | None:
    """Where the services of this machine leave their heartbeats, if they leave any."""
    return settings.heartbeat_file.parent if settings.heartbeat_file else None
