"""What twin stores hand over between two instants: as fast as it is taken, or as it happens."""

import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from heapq import merge
from itertools import groupby
from pathlib import Path

from ingest.replay.channels import Channel
from ingest.twin.people import people_of
from ingest.twin.plan import TwinStore
from ingest.twin.sensors import messages_of, still_known
from ingest.twin.transport import OnItsWay, Transport, arrivals
from ingest.twin.truth import write_truth
from runtime.output import progress

# How much of the past is handed over together, in seconds: a request for each of its seconds would
# take minutes, and with one for all of it a source would be days ahead of another.
PAST_BEAT = 900


@dataclass(frozen=True)
class TwinDays:
    """Which stores over which local days, and how their messages travel.

    `heard_since`: by store, the instant (seconds since 1970) before which no sighting is sent.
    """

    stores: Sequence[TwinStore]
    days: Sequence[date]
    seed: int
    transport: Transport
    heard_since: Mapping[str, float] = field(default_factory=dict)

    def write_truth(self, folder: Path) -> Counter[str]:
        """The truth of every store and day, written; how many visitors, passers, buyers in all."""
        found: Counter[str] = Counter()
        for store in self.stores:
            for day in self.days:
                truth = write_truth(folder, store, day, people_of(store, day, self.seed))
                found += Counter(
                    visitors=truth.visitors, passers=truth.passers, buyers=truth.buyers
                )
        return found

    def arrivals(self, begin: float, until: float) -> list[OnItsWay]:
        """What is handed over between the instants (seconds since 1970), by when it is."""
        both = merge(*map(self._of_store, self.stores), key=lambda one: one.send_at)
        return [one for one in both if begin <= one.send_at < until]

    def around(
        self, now: float, begin: float, until: float
    ) -> tuple[list[OnItsWay], list[OnItsWay]]:
        """What is handed over between begin and until, in two: before now, and from now on."""
        found = self.arrivals(begin, until)
        count = sum(one.send_at < now for one in found)
        return found[:count], found[count:]

    def _of_store(self, store: TwinStore) -> list[OnItsWay]:
        made = [
            message
            for day in self.days
            for message in messages_of(store, day, self.seed, people_of(store, day, self.seed))
        ]
        known = still_known(made, self.heard_since.get(store.store_id, 0.0))
        return arrivals(known, self.transport, self.seed, store.store_id)


def send(
    found: Sequence[OnItsWay],
    channels: Mapping[str, Channel],
    *,
    as_it_happens: bool,
    pause: Callable[[float], None] = time.sleep,
) -> Counter[str]:
    """Hand everything over in its order; how many messages of each source there were.

    As it happens each second's messages are waited for, else they go out as fast as they are taken.
    """
    beat_seconds = 1 if as_it_happens else PAST_BEAT
    with progress("twin messages sent", len(found)) as advance:
        for number, some in groupby(found, key=lambda one: int(one.send_at // beat_seconds)):
            # At the second's end: of what is not over yet nobody could tell.
            if as_it_happens:
                pause(max(0.0, number + 1 - time.time()))
            beat = [*some]
            for one in beat:
                channels[one.message.source].send("", one.message.body)
            for channel in channels.values():
                channel.settle()
            advance(len(beat))
    return Counter(one.message.source for one in found)


def end_with_the_starter(seconds: float) -> None:
    """A pause of so many seconds. Raises SystemExit when standard input ends: who holds its other
    end is gone, however that came about."""
    if select.select([sys.stdin], [], [], seconds)[0]:
        raise SystemExit(0)
