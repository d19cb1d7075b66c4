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

from alerting.deliver.state.records import decode_record
from alerting.health.gauges import AlertFacts
from runtime.connect import kafka_consumer
from runtime.kafka.log_identity import PositionMetadata
from runtime.kafka.tail import Tail, TopicRecord, read_topic_id, read_topic_state
from runtime.kafka.topics import read_committed_positions
from runtime.outbound.records import TickTime, UndeliveredMessages
from runtime.process.heartbeat import read_restore_seconds
from runtime.process.job import describe_error
from tally.alerts.tick import NO_TICK, Tick, merge_ticks
from tally.config.settings import Settings
from tally.errors import TallyError

TICKS, DELIVERIES, EVALUATOR = "ticks", "alert-deliveries", "evaluator"
POLL_INTERVAL_SECONDS = 5.0
# The last change that a tick has caused is within this many records of the end, except in an alert
# storm; then the next tick brings one.
_TAIL_RECORDS = 1_000
_MAX_RECORDS, _POLL_SECONDS, _REQUEST_SECONDS = 500, 0.3, 10.0
_FIRST_POLL_SECONDS = 3.0

log = structlog.get_logger()


class AlertWatch:
    """The facts as of the last poll; the first call of `facts` starts the thread."""

    def __init__(self, settings: Settings, interval_seconds: float = POLL_INTERVAL_SECONDS) -> None:
        self._settings, self._interval_seconds = settings, interval_seconds
        self._stop_event, self._has_polled = Event(), Event()
        self._starting = Lock()
        self._thread: Thread | None = None
        self._facts = AlertFacts()

    def facts(self) -> AlertFacts:
        """The facts as of the last poll, which the first call waits for; empty until then."""
        with self._starting:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="alert-watch", daemon=True)
                self._thread.start()
        self._has_polled.wait(_FIRST_POLL_SECONDS)
        # Only the first call waits: otherwise each scrape would wait while the brokers are down.
        self._has_polled.set()
        return self._facts

    def close(self) -> None:
        """Ends the thread."""
        self._stop_event.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop_event.is_set():
            try:
                with _WatchConnections(self._settings) as connections:
                    self._poll(connections)
            # The last facts stay: their age shows that the brokers have not answered since.
            except KafkaException as error:
                log.warning("alerts are not watched", reason=describe_error(error))
            except TallyError as error:
                log.warning("alerts are not watched", reason=str(error))
            self._stop_event.wait(self._interval_seconds)

    def _poll(self, connections: "_WatchConnections") -> None:
        while not self._stop_event.is_set():
            self._facts = connections.facts()
            self._has_polled.set()
            self._stop_event.wait(self._interval_seconds)


class _WatchConnections:
    """Connections that stay open between polls.

    Each method raises StackError or KafkaException.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings, self._open = settings, ExitStack()
        self._ticks: dict[int, Tick] = {}
        self._undelivered: dict[int, Mapping[str, UndeliveredMessages]] = {}

    def __enter__(self) -> Self:
        try:
            now = {name: read_topic_state(self._settings, name) for name in (TICKS, DELIVERIES)}
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
            if read_topic_id(self._settings, name) != topic_id:
                raise TallyError(f"topic {name} was created again; it is read from its begin")
        for record in _new_records(self._tails[TICKS]):
            self._take_tick(record)
        for record in _new_records(self._tails[DELIVERIES]):
            self._take_delivery(record)
        restored = read_restore_seconds(
            _heartbeat_folder(self._settings), self._settings.stalled_after_seconds
        )
        return AlertFacts(
            {**self._ticks}, self._evaluation_times(), {**self._undelivered}, restored
        )

    def _tail(self, topic: str) -> Tail:
        bounds = read_topic_state(self._settings, topic).bounds
        begin = [max(partition.earliest, partition.end - _TAIL_RECORDS) for partition in bounds]
        return Tail(self._settings, topic, dict(enumerate(begin)))

    def _take_tick(self, record: TopicRecord) -> None:
        try:
            tick = Tick.decode(record.value)
        except msgspec.DecodeError:
            # The evaluator logs such a record.
            return
        known = self._ticks.get(record.partition, NO_TICK)
        self._ticks[record.partition] = merge_ticks(known, tick)

    def _take_delivery(self, record: TopicRecord) -> None:
        try:
            change = decode_record(record.value)
        except msgspec.DecodeError:
            # A tombstone has no value and ends here too.
            return
        if isinstance(change, TickTime):
            self._undelivered[record.partition] = change.undelivered

    def _evaluation_times(self) -> dict[int, int]:
        """For each partition the time of the last evaluated tick, ms since 1970 (UTC)."""
        partitions = [(TICKS, number) for number in self._tails[TICKS].until]
        found: dict[int, int] = {}
        for position in read_committed_positions(self._group, partitions, _REQUEST_SECONDS):
            metadata = PositionMetadata.read(position.metadata)
            # In a topic that was re-created since, nothing has been evaluated yet.
            if metadata and metadata.last and metadata.topic_id == self._ids[TICKS]:
                found[position.partition] = metadata.last.timestamp_ms
        return found


def _new_records(tail: Tail) -> Iterator[TopicRecord]:
    """The records that have arrived since the last call, up to the ends of the partitions."""
    deadline = time.monotonic() + _REQUEST_SECONDS
    tail.ended.clear()
    while len(tail.ended) < len(tail.until) and time.monotonic() < deadline:
        yield from tail.read(_MAX_RECORDS, _POLL_SECONDS)


def _heartbeat_folder(settings: Settings) -> Path | None:
    """The folder of the heartbeat files of this machine's services; None if there is none."""
    return settings.heartbeat_file.parent if settings.heartbeat_file else None
