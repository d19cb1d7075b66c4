"""Watches ticks, committed positions, deliveries and heartbeats in a thread of its own."""

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
# The last change that a tick has caused is within this many records of the end, except in an alert
# storm; then the next tick brings one.
_BACK = 1_000
_MOST_AT_ONCE, _POLL_SECONDS, _ASK_SECONDS = 500, 0.3, 10.0
_FIRST_LOOK_SECONDS = 3.0

log = structlog.get_logger()


class AlertWatch:
    """The facts as of the last look; the first call of `facts` starts the thread."""

    def __init__(self, settings: Settings, look_seconds: float = LOOK_SECONDS) -> None:
        self._settings, self._look_seconds = settings, look_seconds
        self._stopped, self._has_looked = Event(), Event()
        self._starting = Lock()
        self._thread: Thread | None = None
        self._facts = AlertFacts()

    def facts(self) -> AlertFacts:
        """The facts as of the last look, which the first call waits for; empty until then."""
        with self._starting:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="alert-watch", daemon=True)
                self._thread.start()
        self._has_looked.wait(_FIRST_LOOK_SECONDS)
        # Only the first call waits: otherwise each scrape would wait while the brokers are down.
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
            # The last facts stay: their age shows that the brokers have not answered since.
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
    """Connections that stay open between looks.

    Each method raises StackError or KafkaException.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings, self._open = settings, ExitStack()
        self._ticks: dict[int, Tick] = {}
        self._undelivered: dict[int, Mapping[str, UndeliveredMessages]] = {}

    def __enter__(self) -> Self:
        try:
            now = {name: topic_now(self._settings, name) for name in (TICKS, DELIVERIES)}
            self._ids = {name: topic.topic_id for name, topic in now.items()}
            self._tails = {name: self._open.enter_context(self._tail(name)) for name in now}
            # It reads the positions of the evaluators' group without joining it.
            group = kafka_consumer(self._settings, EVALUATOR)
            self._group: Any = self._open.enter_context(group)
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def facts(self) -> AlertFacts:
        """The facts as of now. Raises TallyError also for a topic that was re-created."""
        for name, topic_id in self._ids.items():
            if topic_id_now(self._settings, name) != topic_id:
                raise TallyError(f"topic {name} was made anew; it is read again")
        for record in _new_records(self._tails[TICKS]):
            self._take_tick(record)
        for record in _new_records(self._tails[DELIVERIES]):
            self._take_delivery(record)
        restored = restore_seconds(
            _heartbeat_folder(self._settings), self._settings.stalled_after_seconds
        )
        return AlertFacts({**self._ticks}, self._judged_times(), {**self._undelivered}, restored)

    def _tail(self, topic: str) -> Tail:
        bounds = topic_now(self._settings, topic).bounds
        begin = [max(partition.earliest, partition.end - _BACK) for partition in bounds]
        return Tail(self._settings, topic, dict(enumerate(begin)))

    def _take_tick(self, record: TailedRecord) -> None:
        try:
            tick = Tick.read(record.value)
        except msgspec.DecodeError:
            # The evaluator logs such a record.
            return
        known = self._ticks.get(record.partition, NO_TICK)
        self._ticks[record.partition] = merged(known, tick)

    def _take_delivery(self, record: TailedRecord) -> None:
        try:
            change = parsed_kept(record.value)
        except msgspec.DecodeError:
            # A tombstone has no value and ends here too.
            return
        if isinstance(change, TickTime):
            self._undelivered[record.partition] = change.undelivered

    def _judged_times(self) -> dict[int, int]:
        """For each partition the time of the last judged tick, ms since 1970 (UTC)."""
        lanes = [(TICKS, number) for number in self._tails[TICKS].until]
        found: dict[int, int] = {}
        for position in committed_positions(self._group, lanes, _ASK_SECONDS):
            bookmark = Bookmark.read(position.metadata)
            # In a topic that was re-created since, nothing has been judged yet.
            if bookmark and bookmark.last and bookmark.topic_id == self._ids[TICKS]:
                found[position.partition] = bookmark.last.timestamp_ms
        return found


def _new_records(tail: Tail) -> Iterator[TailedRecord]:
    """The records that have arrived since the last call, up to the ends of the partitions."""
    deadline = time.monotonic() + _ASK_SECONDS
    tail.ended.clear()
    while len(tail.ended) < len(tail.until) and time.monotonic() < deadline:
        yield from tail.read(_MOST_AT_ONCE, _POLL_SECONDS)


def _heartbeat_folder(settings: Settings) -> Path | None:
    """The folder of the heartbeat files of this machine's services; None if there is none."""
    return settings.heartbeat_file.parent if settings.heartbeat_file else None
