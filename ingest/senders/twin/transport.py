"""Simulates the way to the gateway: delays, disorder and duplicates."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ingest.senders.twin.plan import make_random
from ingest.senders.twin.sensors import SensorMessage


@dataclass(frozen=True)
class Transport:
    """How messages travel; shares of them, times in seconds."""

    duplicates: float = 0.02
    delay: float = 5.0
    disorder: float = 300.0
    disordered: float = 0.02


class SentMessage(NamedTuple):
    """A message on its way: when it is handed over, seconds since 1970 (UTC)."""

    send_at: float
    message: SensorMessage


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
    yield SentMessage(at, message)
    if chance.random() < transport.duplicates:
        again = at + chance.uniform(0, transport.disorder)
        yield SentMessage(max(again, at + chance.uniform(0, 60)), message)
