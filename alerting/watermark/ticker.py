"""Writes ticks for as long as its process runs.

Several tickers may run at once, and one may resume after an hour: a tick is a fact, so a repeated
or late tick makes no difference.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from threading import Event

import msgspec
import structlog
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaException, Message, Producer

from alerting.watermark.pipeline import LivePipeline, ViewProgress, open_pipeline, probe_pipeline
from alerting.watermark.watermark import FamilyWatermarks, advance
from runtime.connect import kafka_producer
from runtime.kafka.broker_clock import read_broker_time
from runtime.kafka.offsets import TopicOffsets
from runtime.kafka.producer import BlockingProducer
from runtime.kafka.reader import read_newest, read_to_end
from runtime.process.job import describe_error
from runtime.registry.sources import FAMILIES
from tally.alerts.tick import NO_TICK, Tick, merge_ticks
from tally.config.settings import Settings
from tally.errors import SendFailed, TallyError
from tally.time.instants import to_millis

TOPIC = "ticks"
_SEND_SECONDS = 10.0
# How many of the newest ticks of a partition are read before the next: they have one of every
# ticker, and each tick includes all that earlier ones said.
_NEWEST_RECORDS = 32

# Keyed by partition.
PartitionTicks = Mapping[int, Tick]

log = structlog.get_logger()


class Ticker:
    """Writes one tick for each partition, every `tick_seconds`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._families = tuple(FAMILIES)
        self._views = ViewProgress(settings)
        self._producer: Producer | None = None
        self._watermarks = dict.fromkeys(self._families, FamilyWatermarks())
        self._previous_positions: TopicOffsets = {}
        # The merged tick of each partition, from all known ticks.
        self._last_ticks: dict[int, Tick] = {}
        # An instant that has passed by the brokers' clock; 0 before the first tick.
        self._at = 0

    def run(self, stopped: Event) -> None:
        """Tick until stopped.

        During an outage of another service there is no tick, or a tick that says no more than the
        previous one.
        """
        with closing(self):
            while not stopped.is_set():
                # A monotonic clock: a wall clock that is set back would stop the ticks.
                due = time.monotonic() + self._settings.tick_seconds
                try:
                    self.tick()
                except (KafkaException, TallyError) as error:
                    log.warning("no tick", reason=describe_error(error))
                stopped.wait(max(0.0, due - time.monotonic()))

    def close(self) -> None:
        """End the connections."""
        self._views.close()

    def tick(self) -> PartitionTicks:
        """Write one tick per partition, and return them once the brokers have them all.

        Instants are in milliseconds (UTC). Raises KafkaException or TallyError without brokers.
        """
        if not self._at:
            self._last_ticks = read_ticks(self._settings)
            self._at = to_millis(read_broker_time(self._settings))
        newest = read_ticks(self._settings, only_newest=True)
        known = self._families, self._previous_positions
        with open_pipeline(self._settings, self._views, *known) as brokers:
            ticks = self._next_ticks(brokers, newest)
            self._previous_positions = brokers.reported_positions
        self._at = self._send(ticks)
        self._last_ticks = ticks
        return ticks

    def _send(self, ticks: PartitionTicks) -> int:
        """Write the ticks; returns the earliest instant (ms since 1970, UTC) of the brokers' times.

        Raises SendFailed when not all ticks were taken in time, KafkaException, or TallyError when
        the brokers do not set the time of records.
        """
        stamps: list[tuple[int, int]] = []
        if self._producer is None:
            self._producer = kafka_producer(self._settings, {"linger.ms": 0})
        sender = BlockingProducer(
            self._producer, _SEND_SECONDS, lambda message: stamps.append(message.timestamp())
        )
        try:
            for number, tick in ticks.items():
                sender.send(TOPIC, tick.value, str(number), number)
            sender.flush(f"topic {TOPIC}", "the next tick tells it too")
        except (KafkaException, SendFailed):
            # The next turn gets a new producer: some errors of an idempotent producer are fatal.
            self._producer.purge()
            self._producer = None
            raise
        if any(kind != TIMESTAMP_LOG_APPEND_TIME for kind, _ in stamps):
            raise TallyError(
                f"topic {TOPIC} has not the brokers' time in its records; `tally up kafka` sets"
                " message.timestamp.type"
            )
        # Each leader has its own clock: all clocks have passed the time of the slowest one. A
        # broker that leads no partition of this topic is not considered.
        return min(millis for _, millis in stamps)

    def _next_ticks(self, brokers: LivePipeline, newest: PartitionTicks) -> dict[int, Tick]:
        snapshots = probe_pipeline(brokers, self._families, self._at)
        for name, snapshot in snapshots.items():
            self._watermarks[name] = advance(self._watermarks[name], snapshot)
        # Read after the instant was taken: a rule written before the instant is below this end.
        until, flips = self._rules_until(brokers), self._views.flip_tokens(self._families)
        ticks = {}
        for number in range(self._settings.partitions):
            known = self._last_ticks.get(number, NO_TICK)
            news = {"n": known.n + 1, "at": self._at, "flips": flips, "rules_until": until}
            now = msgspec.structs.replace(build_tick(number, self._watermarks), **news)
            # The number of another ticker's tick is taken without adding one: several tickers do
            # not make it grow faster, and those that remain continue from the furthest one.
            ticks[number] = merge_ticks(merge_ticks(known, now), newest.get(number, NO_TICK))
        return ticks

    def _rules_until(self, brokers: LivePipeline) -> int:
        until = brokers.rules_until()
        # A broker that has just restarted may not know an existing topic.
        known = [tick.rules_until for tick in self._last_ticks.values()]
        if until < max(known, default=0):
            raise TallyError(f"the topic of rules ends at {until}, and was longer; look into Kafka")
        return until


def build_tick(partition: int, families: Mapping[str, FamilyWatermarks]) -> Tick:
    """A tick with only what the watermarks of the families say of a partition."""
    by_family = {name: family.watermarks.get(partition) for name, family in families.items()}
    known = {name: state for name, state in by_family.items() if state is not None}
    epoch = {name: state.epoch for name, state in known.items()}
    instants = {name: state.through for name, state in known.items()}
    through = {name: at for name, at in instants.items() if at is not None}
    return Tick(through=through, epoch=epoch)


def read_ticks(settings: Settings, *, only_newest: bool = False) -> dict[int, Tick]:
    """The merged ticks, in milliseconds, by partition. Raises KafkaException or StackError.

    `only_newest`: reads the last ticks of all tickers alone, in place of the whole topic.
    """
    messages: Iterable[Message] = (
        read_newest(settings, TOPIC, _NEWEST_RECORDS)
        if only_newest
        else read_to_end(settings, [TOPIC])
    )
    known: dict[int, Tick] = {}
    for message in messages:
        number, value = int(message.partition() or 0), message.value()
        try:
            tick = Tick.decode(bytes(value or b""))
        except msgspec.DecodeError as error:
            # Another program wrote it; the other ticks are valid without it.
            log.warning("unreadable tick", partition=number, reason=str(error))
            continue
        known[number] = merge_ticks(known.get(number, NO_TICK), tick)
    return known
