"""Writes ticks, for as long as its process runs.

Several may do so at once, and one may wake up after an hour and go on: a tick is a fact, which it
makes no difference to tell again, or late.
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
# Ticks of each partition that are read before the next: among them is one of every ticker, and each
# says what all before it have said.
_HEARD = 32

# By partition.
KnownTicks = Mapping[int, Tick]

log = structlog.get_logger()


class Ticker:
    """One tick for each partition, every `tick_seconds`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._families = tuple(FAMILIES)
        self._views = Views(settings)
        self._sender = TickSender(settings)
        self._walks = dict.fromkeys(self._families, FamilyWalk())
        self._stood: TopicOffsets = {}
        # What holds of each partition by all ticks that are known.
        self._known: dict[int, Tick] = {}
        # An instant that has come by the brokers' clock; 0 before the first.
        self._at = 0

    def run(self, stopped: Event) -> None:
        """Tick until stopped.

        Whoever is away is waited for: meanwhile no tick comes, or one that says no more than the
        one before.
        """
        with closing(self):
            while not stopped.is_set():
                # By no wall clock: one that is set back would stop the ticks.
                due = time.monotonic() + self._settings.tick_seconds
                try:
                    self.tick()
                except KafkaException as error:
                    log.warning("no tick", reason=reason_of(error))
                except TallyError as error:
                    log.warning("no tick", reason=str(error))
                stopped.wait(max(0.0, due - time.monotonic()))

    def close(self) -> None:
        """Ends its connections."""
        self._views.close()

    def tick(self) -> Mapping[int, Tick]:
        """The ticks that were written, by partition, once the brokers have them all.

        Instants are in milliseconds since 1970 (UTC).
        Raises KafkaException or TallyError when they do not answer.
        """
        if not self._at:
            self._known = known_ticks(self._settings)
            self._at = millis_now(self._settings)
        heard = newest_ticks(self._settings)
        with pipeline(self._settings, self._views, self._families, self._stood) as asked:
            ticks = self._told(asked, heard)
            self._stood = asked.told_positions
        self._at = self._sender.sent(ticks)
        self._known = ticks
        return ticks

    def _told(self, asked: BrokersAndViews, heard: KnownTicks) -> dict[int, Tick]:
        looks = looked(asked, self._families, self._at)
        for name, look in looks.items():
            self._walks[name] = walked(self._walks[name], look)
        # After the instant too: a rule that was written before it lies below this end.
        until, flips = self._rules_until(asked), self._views.flips(self._families)
        told = {}
        for number in range(self._settings.partitions):
            known = self._known.get(number, NO_TICK)
            now = said_of(number, self._walks)
            now = msgspec.structs.replace(
                now, n=known.n + 1, at=self._at, flips=flips, rules_until=until
            )
            # Not one more than the others have: several tickers do not make it grow faster than
            # one, and whoever is left when the furthest has ended goes on from there.
            told[number] = merged(merged(known, now), heard.get(number, NO_TICK))
        return told

    def _rules_until(self, asked: BrokersAndViews) -> int:
        until = asked.rules_until()
        # A broker that has just come back may not know a topic that is there.
        known = [tick.rules_until for tick in self._known.values()]
        if until < max(known, default=0):
            raise TallyError(f"the topic of rules ends at {until}, and was longer; look into Kafka")
        return until


def said_of(partition: int, walks: Mapping[str, FamilyWalk]) -> Tick:
    """What the walks of the families say of a partition, as a tick of that alone."""
    told = {name: walk.said.get(partition) for name, walk in walks.items()}
    said = {name: one for name, one in told.items() if one is not None}
    through = {name: one.through for name, one in said.items()}
    return Tick(
        through={name: at for name, at in through.items() if at is not None},
        epoch={name: one.epoch for name, one in said.items()},
    )


def known_ticks(settings: Settings) -> dict[int, Tick]:
    """By partition what all ticks say that the topic still has, instants in milliseconds.

    Raises KafkaException, or StackError when the brokers do not answer.
    """
    return _merged_ticks(read_to_end(settings, [TOPIC]))


def newest_ticks(settings: Settings) -> dict[int, Tick]:
    """By partition what the last ticks say, of all tickers, instants in milliseconds.

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
            # Somebody else's: without it the others say what they say.
            log.warning("unreadable tick", partition=number, reason=str(error))
            continue
        known[number] = merged(known.get(number, NO_TICK), tick)
    return known


def millis_now(settings: Settings) -> int:
    """An instant that has come by the brokers' clock (ms since 1970, UTC)."""
    return round(brokers_now(settings).timestamp() * 1000)


class TickSender:
    """Writes the ticks of one turn, and knows when they came."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producer: Producer | None = None

    def sent(self, ticks: Mapping[int, Tick]) -> int:
        """The earliest of the instants (ms since 1970, UTC) at which the brokers have taken them.

        Raises NotSent when not all of them were taken in time, KafkaException, or TallyError when
        it is not the brokers who give the time.
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
            # Another one for the next turn: some errors of an idempotent producer are for good.
            producer.purge()
            self._producer = None
            raise
        if any(kind != TIMESTAMP_LOG_APPEND_TIME for kind, _ in stamps):
            raise TallyError(
                f"topic {TOPIC} has not the brokers' time in its records; `tally up kafka` sets"
                " message.timestamp.type"
            )
        # Each leader has a clock of its own: by the slowest, all of them have come that far. A
        # broker that leads no partition of this topic is not heard.
        return min(millis for _, millis in stamps)
