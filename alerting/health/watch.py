"""The health of alerting itself: a watch on the brokers, and Prometheus gauges of what it finds.

Gauges are computed for a given instant: an age keeps growing while the brokers do not answer.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from operator import attrgetter
from threading import Event, Lock, Thread
from typing import Any, NamedTuple, Protocol, Self

import msgspec
import structlog
from confluent_kafka import KafkaException
from msgspec import Struct

from alerting.alert.current_state import STATE_RANKS
from alerting.deliver.state.records import decode_record
from alerting.queries.alerts import ListedAlert
from runtime.connect import kafka_consumer
from runtime.http.exposition import MetricSample, format_gauge
from runtime.kafka.log_identity import PositionMetadata
from runtime.kafka.tail import Tail, TopicRecord, read_topic_id, read_topic_state
from runtime.kafka.topics import read_committed_positions
from runtime.outbound.engine import TickTime, UndeliveredMessages
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
# Keyed by partition, then by channel.
Undelivered = Mapping[int, Mapping[str, UndeliveredMessages]]

_DESCRIPTIONS = {
    "tally_alerts_tick_lag_seconds": "Age of the instant up to which the last partition is read",
    "tally_evaluator_blind_seconds": "Age of the oldest tick that was evaluated last",
    "tally_deliveries_pending_seconds": "Age of the oldest message that waits",
    "tally_deliveries_dead_total": "Messages that were given up",
    "tally_deliveries_blocked": "Messages that wait for a repair",
    "tally_restore_seconds": "Seconds until the state was restored",
}

log = structlog.get_logger()


class AlertFacts(Struct, frozen=True):
    """The state of alerting as brokers and processes report it; instants are ms since 1970 (UTC).

    `ticks`: the merged ticks of each partition; `evaluated_at`: for each partition the time of the
    tick that was evaluated last; `undelivered`: by partition and channel the messages that have not
    arrived; `restore_seconds`: for each service the seconds that its last restore of state took.
    """

    ticks: Mapping[int, Tick] = {}
    evaluated_at: Mapping[int, int] = {}
    undelivered: Undelivered = {}
    restore_seconds: Mapping[str, float] = {}


class AlertFactSource(Protocol):
    """A source of alert facts, such as a watch on the brokers."""

    def facts(self) -> AlertFacts:
        """The facts as of the last poll."""


class AlertGauge(NamedTuple):
    """A gauge with its samples; each sample is its labels and its value."""

    name: str
    description: str
    samples: Iterable[MetricSample]

    @property
    def text(self) -> str:
        """Prometheus exposition text, "" without a sample."""
        return format_gauge(self.name, self.description, self.samples)


def build_fact_gauges(facts: AlertFacts, now: int) -> list[AlertGauge]:
    """The gauges computed from the facts for the instant `now` (ms since 1970, UTC)."""
    waiting, restored = facts.undelivered, sorted(facts.restore_seconds.items())
    # Before the first evaluation there is none.
    oldest = sorted(facts.evaluated_at.values())[:1]
    gauges: dict[str, Iterable[MetricSample]] = {
        "tally_alerts_tick_lag_seconds": _tick_lags(facts.ticks, now),
        "tally_evaluator_blind_seconds": [({}, _age_seconds(now, at)) for at in oldest],
        "tally_deliveries_pending_seconds": _pending_samples(waiting, now),
        "tally_deliveries_dead_total": _count_samples(waiting, attrgetter("dead")),
        "tally_deliveries_blocked": _count_samples(waiting, attrgetter("blocked")),
        "tally_restore_seconds": [({"service": name}, seconds) for name, seconds in restored],
    }
    return [AlertGauge(name, _DESCRIPTIONS[name], samples) for name, samples in gauges.items()]


def build_alert_gauges(open_alerts: Iterable[ListedAlert]) -> list[AlertGauge]:
    """The gauges that count the open alerts."""
    alerts = [*open_alerts]
    states = Counter(alert.state for alert in alerts)
    # A retracted alert is not open.
    standing = (state for state in STATE_RANKS if state != "retracted")
    samples = [({"state": state}, float(states[state])) for state in standing]
    overdue = float(sum(alert.overdue for alert in alerts))
    return [
        AlertGauge("tally_alerts_open", "Open alerts by state", samples),
        AlertGauge("tally_alerts_overdue", "Alerts that should be confirmed", [({}, overdue)]),
    ]


def _tick_lags(ticks: Mapping[int, Tick], now: int) -> Iterator[MetricSample]:
    for family in sorted({name for tick in ticks.values() for name in tick.through}):
        # The partition that is furthest behind decides, because its stores wait.
        through = [tick.through.get(family) for tick in ticks.values()]
        lags = (float("inf") if at is None else _age_seconds(now, at) for at in through)
        yield {"family": family}, max(lags)


def _pending_samples(undelivered: Undelivered, now: int) -> Iterator[MetricSample]:
    for channel, partitions in _group_by_channel(undelivered):
        instants = (messages.waiting_since for messages in partitions)
        since = min((at for at in instants if at is not None), default=now)
        yield {"channel": channel}, _age_seconds(now, since)


def _count_samples(
    undelivered: Undelivered, count: Callable[[UndeliveredMessages], int]
) -> Iterator[MetricSample]:
    for channel, partitions in _group_by_channel(undelivered):
        yield {"channel": channel}, float(sum(map(count, partitions)))


def _group_by_channel(undelivered: Undelivered) -> Iterator[tuple[str, list[UndeliveredMessages]]]:
    for channel in sorted({name for named in undelivered.values() for name in named}):
        yield channel, [named[channel] for named in undelivered.values() if channel in named]


def _age_seconds(now: int, at: int) -> float:
    # The clocks of the brokers and of this process may differ, so an age can come out negative.
    return max(0, now - at) / 1000


class AlertWatch:
    """Watches ticks, positions, deliveries and heartbeats in a thread; `facts` starts it."""

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
                    while not self._stop_event.is_set():
                        self._facts = connections.facts()
                        self._has_polled.set()
                        self._stop_event.wait(self._interval_seconds)
            # The last facts stay: their age shows that the brokers have not answered since.
            except (KafkaException, TallyError) as error:
                log.warning("alerts are not watched", reason=describe_error(error))
            self._stop_event.wait(self._interval_seconds)


class _WatchConnections:
    """Connections that stay open between polls. Methods raise StackError or KafkaException."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ticks: dict[int, Tick] = {}
        self._undelivered: dict[int, Mapping[str, UndeliveredMessages]] = {}

    def __enter__(self) -> Self:
        # What was opened is closed if an error follows.
        with ExitStack() as opened:
            now = {name: read_topic_state(self._settings, name) for name in (TICKS, DELIVERIES)}
            self._ids = {name: topic.topic_id for name, topic in now.items()}
            self._tails = {name: opened.enter_context(self._tail(name)) for name in now}
            # It reads the positions of the evaluators' group without joining it.
            self._group: Any = opened.enter_context(kafka_consumer(self._settings, EVALUATOR))
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def facts(self) -> AlertFacts:
        """The facts as of now. Raises TallyError also for a topic that was re-created."""
        for name, topic_id in self._ids.items():
            if read_topic_id(self._settings, name) != topic_id:
                raise TallyError(f"topic {name} was created again; it is read from its begin")
        for record in _new_records(self._tails[TICKS]):
            # The evaluator logs a record that cannot be read.
            with suppress(msgspec.DecodeError):
                known = self._ticks.get(record.partition, NO_TICK)
                self._ticks[record.partition] = merge_ticks(known, Tick.decode(record.value))
        for record in _new_records(self._tails[DELIVERIES]):
            # A tombstone has no value, and cannot be read either.
            with suppress(msgspec.DecodeError):
                change = decode_record(record.value)
                if isinstance(change, TickTime):
                    self._undelivered[record.partition] = change.undelivered
        # The folder of the heartbeat files of this machine's services.
        folder = self._settings.heartbeat_file.parent if self._settings.heartbeat_file else None
        restored = read_restore_seconds(folder, self._settings.stalled_after_seconds)
        evaluated_at = self._evaluation_times()
        return AlertFacts({**self._ticks}, evaluated_at, {**self._undelivered}, restored)

    def _tail(self, topic: str) -> Tail:
        bounds = read_topic_state(self._settings, topic).bounds
        begin = [max(partition.earliest, partition.end - _TAIL_RECORDS) for partition in bounds]
        return Tail(self._settings, topic, dict(enumerate(begin)))

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
