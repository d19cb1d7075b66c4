"""Simulates the way to Kafka: delays, disorder, duplicates, outages, wrong clocks."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import NamedTuple

from ingest.senders.twin.plan import make_random
from ingest.senders.twin.sensors import SensorMessage
from tally.time.instants import format_utc, parse_instant


class Outage(NamedTuple):
    """No message of the store gets through between the instants; then all come at once.

    Seconds since 1970 (UTC).
    """

    store_id: str
    begin: float
    end: float


@dataclass(frozen=True)
class Transport:
    """How messages travel; shares of them, times in seconds."""

    duplicates: float = 0.02
    delay: float = 5.0
    disorder: float = 300.0
    disordered: float = 0.02
    outages: Sequence[Outage] = ()


class SentMessage(NamedTuple):
    """A message on its way: when it is handed over, seconds since 1970 (UTC)."""

    send_at: float
    message: SensorMessage
    is_repeat: bool


def arrivals(
    messages: Iterable[SensorMessage], transport: Transport, seed: int, store_id: str
) -> list[SentMessage]:
    """All messages of a store as they arrive, ordered by time.

    What happens to a message depends only on the seed and the message, not on other messages.
    """
    found = [
        arrival
        for message in messages
        for arrival in _deliveries(message, transport, seed, store_id)
    ]
    return sorted(found, key=lambda arrival: (arrival.send_at, arrival.message.identity))


def _deliveries(
    message: SensorMessage, transport: Transport, seed: int, store_id: str
) -> Iterator[SentMessage]:
    chance = make_random(seed, store_id, message.identity, "transport")
    late = chance.uniform(0, transport.disorder) if chance.random() < transport.disordered else 0.0
    at = message.ready_at + chance.expovariate(1 / transport.delay) + late
    is_twice = chance.random() < transport.duplicates
    again = at + chance.uniform(0, transport.disorder)
    outages = [outage for outage in transport.outages if outage.store_id == store_id]
    sent_at = _delivery_time(outages, at, chance)
    yield SentMessage(sent_at, message, is_repeat=False)
    # A message that waited is sent once more: the device does not know how much has arrived.
    if sent_at != at or is_twice:
        later = _delivery_time(outages, max(again, sent_at + chance.uniform(0, 60)), chance)
        yield SentMessage(later, message, is_repeat=True)


def _delivery_time(outages: Sequence[Outage], at: float, chance: Random) -> float:
    """When a message gets through: after an outage, whose end may lie in another one."""
    for outage in sorted(outages, key=lambda item: item.begin):
        if outage.begin <= at < outage.end:
            at = outage.end + chance.uniform(0, 60)
    return at


def with_clock(message: SensorMessage, fast: timedelta) -> SensorMessage:
    """The message of a device whose clock is ahead by `fast`; a negative value is behind."""
    fields = json.loads(message.body)
    shown = parse_instant(fields["happened_at"], "/happened_at") + fast
    fields["happened_at"] = format_utc(shown)
    return message._replace(identity=f"{message.identity}/{fast}", body=json.dumps(fields).encode())
