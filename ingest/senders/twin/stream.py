"""Sends messages of twin stores, live or at full speed, with delays, disorder and duplicates."""

import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from heapq import merge
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from ingest.senders.gateway_client import Channel
from ingest.senders.twin.people import TwinStore, draw_people, make_random, write_truth
from ingest.senders.twin.sensors import SensorMessage, make_messages
from runtime.process.output import show_progress

# How much of the past is sent together, in seconds: a request for each of its seconds would take
# minutes, and with one request for everything a source would be days ahead of another.
PAST_BATCH_SECONDS = 900


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
    """A store's messages as they arrive, in order; each depends only on the seed and itself."""
    found = (_deliveries(message, transport, seed, store_id) for message in messages)
    arrived = chain.from_iterable(found)
    return sorted(arrived, key=lambda arrival: (arrival.send_at, arrival.message.identity))


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


@dataclass(frozen=True)
class TwinDays:
    """Which stores over which local days, and how their messages travel."""

    stores: Sequence[TwinStore]
    days: Sequence[date]
    seed: int
    transport: Transport

    def write_truth(self, folder: Path) -> Counter[str]:
        """Write the truth of every store and day; returns all visitors, passers and buyers."""
        totals: Counter[str] = Counter()
        for store in self.stores:
            for day in self.days:
                truth = write_truth(folder, store, day, draw_people(store, day, self.seed))
                totals += Counter(
                    visitors=truth.visitors, passers=truth.passers, buyers=truth.buyers
                )
        return totals

    def arrivals(self, begin: float, until: float) -> list[SentMessage]:
        """The messages to send between the instants (seconds since 1970), ordered by time."""
        merged = merge(*map(self._store_arrivals, self.stores), key=attrgetter("send_at"))
        return [arrival for arrival in merged if begin <= arrival.send_at < until]

    def split_arrivals(
        self, now: float, begin: float, until: float
    ) -> tuple[list[SentMessage], list[SentMessage]]:
        """The messages to send between begin and until, as two lists: before and from `now`."""
        all_arrivals = self.arrivals(begin, until)
        count = sum(arrival.send_at < now for arrival in all_arrivals)
        return all_arrivals[:count], all_arrivals[count:]

    def _store_arrivals(self, store: TwinStore) -> list[SentMessage]:
        days = ((day, draw_people(store, day, self.seed)) for day in self.days)
        messages = (make_messages(store, day, self.seed, people) for day, people in days)
        return arrivals(chain.from_iterable(messages), self.transport, self.seed, store.store_id)


def send(
    all_arrivals: Sequence[SentMessage],
    channels: Mapping[str, Channel],
    *,
    as_it_happens: bool,
    pause: Callable[[float], None] = time.sleep,
) -> Counter[str]:
    """Send in order, as it happens or at full speed; returns how many messages of each source."""
    beat_seconds = 1 if as_it_happens else PAST_BATCH_SECONDS
    with show_progress("twin messages sent", len(all_arrivals)) as advance:
        beats = groupby(all_arrivals, key=lambda arrival: int(arrival.send_at // beat_seconds))
        for number, group in beats:
            # This waits for the second's end: an event cannot be reported before it has happened.
            if as_it_happens:
                pause(max(0.0, number + 1 - time.time()))
            beat = [*group]
            for arrival in beat:
                channels[arrival.message.source].send("", arrival.message.body)
            for channel in channels.values():
                channel.flush()
            advance(len(beat))
    return Counter(arrival.message.source for arrival in all_arrivals)


def pause_or_exit(seconds: float) -> None:
    """Pause for so many seconds. Raises SystemExit when standard input ends: its owner is gone."""
    if select.select([sys.stdin], [], [], seconds)[0]:
        raise SystemExit(0)
