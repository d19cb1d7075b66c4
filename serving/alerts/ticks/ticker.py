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

from runtime.clock import brokers_now
from runtime.connect import kafka_producer
from runtime.job import reason_of
from runtime.offsets import TopicOffsets
from runtime.producer import AwaitedProducer
from runtime.reading import read_newest, read_to_end
from runtime.sources import FAMILIES
from serving.alerts.ticks.look import looked
from serving.alerts.ticks.pipeline import BrokersAndViews, Views, pipeline
from serving.alerts.ticks.walk import FamilyWalk, walked
from tally.alerts.tick import NO_TICK, Tick, merged
from tally.errors import NotSent, TallyError
from tally.settings import Settings

TOPIC = "ticks"
_SEND_SECONDS = 10.0
# How many of the newest ticks of a partition are read before the next: they have one of every
# ticker, and each tick includes all that earlier ones said.
_HEARD = 32

# Keyed by partition.
KnownTicks = Mapping[int, Tick]

log = structlog.get_logger()


class Ticker:
    """Writes one tick for each partition, every `tick_seconds`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._families = tuple(FAMILIES)
        self._views = Views(settings)
        self._sender = TickSender(settings)
        self._walks = dict.fromkeys(self._families, FamilyWalk())
        self._stood: TopicOffsets = {}
        # The merged tick of each partition, from all known ticks.
        self._known: dict[int, Tick] = {}
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
                except KafkaException as error:
                    log.warning("no tick", reason=reason_of(error))
                except TallyError as error:
                    log.warning("no tick", reason=str(error))
                stopped.wait(max(0.0, due - time.monotonic()))

    def close(self) -> None:
        """End the connections."""
        self._views.close()

    def tick(self) -> Mapping[int, Tick]:
        """Write one tick per partition, and return them once the brokers have them all.

        Instants are in milliseconds since 1970 (UTC).
        Raises KafkaException or TallyError when the brokers do not answer.
        """
        if not self._at:
            self._known = known_ticks(self._settings)
            self._at = millis_now(self._settings)
        heard = newest_ticks(self._settings)
        with pipeline(self._settings, self._views, self._families, self._stood) as brokers:
            ticks = self._next_ticks(brokers, heard)
            self._stood = brokers.told_positions
        self._at = self._sender.sent(ticks)
        self._known = ticks
        return ticks

    def _next_ticks(self, brokers: BrokersAndViews, heard: KnownTicks) -> dict[int, Tick]:
        looks = looked(brokers, self._families, self._at)
        for name, look in looks.items():
            self._walks[name] = walked(self._walks[name], look)
        # Read after the instant was taken: a rule written before the instant is below this end.
        until, flips = self._rules_until(brokers), self._views.flips(self._families)
        ticks = {}
        for number in range(self._settings.partitions):
            known = self._known.get(number, NO_TICK)
            now = said_of(number, self._walks)
            now = msgspec.structs.replace(
                now, n=known.n + 1, at=self._at, flips=flips, rules_until=until
            )
            # The number of another ticker's tick is taken without adding one: several tickers do
            # not make it grow faster, and those that remain continue from the furthest one.
            ticks[number] = merged(merged(known, now), heard.get(number, NO_TICK))
        return ticks

    def _rules_until(self, brokers: BrokersAndViews) -> int:
        until = brokers.rules_until()
        # A broker that has just restarted may not know an existing topic.
        known = [tick.rules_until for tick in self._known.values()]
        if until < max(known, default=0):
            raise TallyError(f"the topic of rules ends at {until}, and was longer; look into Kafka")
        return until


def said_of(partition: int, walks: Mapping[str, FamilyWalk]) -> Tick:
    """A tick with only what the walks of the families say of a partition."""
    by_family = {name: walk.said.get(partition) for name, walk in walks.items()}
    said = {name: state for name, state in by_family.items() if state is not None}
    through = {name: state.through for name, state in said.items()}
    return Tick(
        through={name: at for name, at in through.items() if at is not None},
        epoch={name: state.epoch for name, state in said.items()},
    )


def known_ticks(settings: Settings) -> dict[int, Tick]:
    """The merged tick of each partition, from all ticks in the topic; instants in milliseconds.

    Raises KafkaException, or StackError when the brokers do not answer.
    """
    return _merged_ticks(read_to_end(settings, [TOPIC]))


def newest_ticks(settings: Settings) -> dict[int, Tick]:
    """The merged tick of each partition, from the last ticks of all tickers, in milliseconds.

    Raises KafkaException, or StackError when the brokers do not answer.
    """
    return _merged_ticks(read_newest(settings, TOPIC, _HEARD))


def _merged_ticks(messages: Iterable[Message]) -> dict[int, Tick]:
    known: dict[int, Tick] = {}
    for message in messages:
        number, value = int(message.partition() or 0), message.value()
        try:
            tick = Tick.read(bytes(value or b""))
        except msgspec.DecodeError as error:
            # Another program wrote it; the other ticks are valid without it.
            log.warning("unreadable tick", partition=number, reason=str(error))
            continue
        known[number] = merged(known.get(number, NO_TICK), tick)
    return known


def millis_now(settings: Settings) -> int:
    """An instant that has passed by the brokers' clock (ms since 1970, UTC)."""
    return round(brokers_now(settings).timestamp() * 1000)


class TickSender:
    """Writes the ticks of one turn, and returns when the brokers took them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producer: Producer | None = None

    def sent(self, ticks: Mapping[int, Tick]) -> int:
        """Write the ticks; returns the earliest instant (ms since 1970, UTC) of the brokers' times.

        Raises NotSent when not all ticks were taken in time, KafkaException, or TallyError when the
        brokers do not set the time of records.
        """
        stamps: list[tuple[int, int]] = []
        producer = self._producer = self._producer or kafka_producer(
            self._settings, {"linger.ms": 0}
        )
        sender = AwaitedProducer(
            producer, _SEND_SECONDS, lambda message: stamps.append(message.timestamp())
        )
        try:
            for number, tick in ticks.items():
                sender.send(TOPIC, tick.value, str(number), number)
            sender.settle(f"topic {TOPIC}", "the next tick tells it too")
        except (KafkaException, NotSent):
            # The next turn gets a new producer: some errors of an idempotent producer are fatal.
            producer.purge()
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
