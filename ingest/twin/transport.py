"""What the way from a sensor to Kafka does: delays, disorder, duplicates, outages, wrong clocks."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import NamedTuple

from ingest.twin.plan import chance_of
from ingest.twin.sensors import SensorMessage
from tally.instants import instant_text, parse_instant


class Outage(NamedTuple):
    """Nothing of the store gets through between the instants; then all of it comes at once.

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


class OnItsWay(NamedTuple):
    """A message on its way: when it is handed over, seconds since 1970 (UTC)."""

    send_at: float
    message: SensorMessage
    is_repeat: bool


def arrivals(
    messages: Iterable[SensorMessage], transport: Transport, seed: int, store_id: str
) -> list[OnItsWay]:
    """Everything of a store as it arrives, by when it does.

    What becomes of a message hangs on the seed and on the message alone, whatever others there are.
    """
    found = [one for message in messages for one in _sent(message, transport, seed, store_id)]
    return sorted(found, key=lambda one: (one.send_at, one.message.identity))


def _sent(
    message: SensorMessage, transport: Transport, seed: int, store_id: str
) -> Iterator[OnItsWay]:
    chance = chance_of(seed, store_id, message.identity, "transport")
    late = chance.uniform(0, transport.disorder) if chance.random() < transport.disordered else 0.0
    at = message.ready_at + chance.expovariate(1 / transport.delay) + late
    is_twice = chance.random() < transport.duplicates
    again = at + chance.uniform(0, transport.disorder)
    outages = [one for one in transport.outages if one.store_id == store_id]
    sent_at = _through(outages, at, chance)
    yield OnItsWay(sent_at, message, is_repeat=False)
    # What waited is pushed once more: nobody has told the device how much of it has arrived.
    if sent_at != at or is_twice:
        later = _through(outages, max(again, sent_at + chance.uniform(0, 60)), chance)
        yield OnItsWay(later, message, is_repeat=True)


def _through(outages: Sequence[Outage], at: float, chance: Random) -> float:
    """When it gets through: at the end of the outage, which may lie in another one."""
    for outage in sorted(outages, key=lambda one: one.begin):
        if outage.begin <= at < outage.end:
            at = outage.end + chance.uniform(0, 60)
    return at


def with_clock(message: SensorMessage, fast: timedelta) -> SensorMessage:
    """The message of a device whose clock is so much fast; slow: less than nothing."""
    told = json.loads(message.body)
    shown = parse_instant(told["happened_at"], "/happened_at") + fast
    told["happened_at"] = instant_text(shown)
    return message._replace(identity=f"{message.identity}/{fast}", body=json.dumps(told).encode())
