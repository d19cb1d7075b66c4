"""The numbers of the slide page, as sightings of one store: two spans of 28 days, the later one as
printed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from tally.time.instants import format_utc

STORE, SEED, DAYS = "slide-page", 2017, 28
OUTSIDE_DBM, INSIDE_DBM = -82, -60
# Minutes of the day in which people come by.
FIRST_MINUTE, LAST_MINUTE = 8 * 60, 20 * 60


@dataclass(frozen=True)
class SlideSpan:
    """28 local days from the first on: how many passed, how many came in, for how many minutes."""

    first: date
    passes: int
    visits_of: Sequence[tuple[int, int]]

    @property
    def visits(self) -> int:
        return sum(count for count, _ in self.visits_of)

    @property
    def stay_seconds(self) -> int:
        return sum(60 * count * minutes for count, minutes in self.visits_of)

    @property
    def days(self) -> str:
        """As --days takes them."""
        return f"{self.first}..{self.first + timedelta(DAYS - 1)}"


BEFORE = SlideSpan(date(2017, 8, 7), 239_134, ((11_810, 20), (5_473, 21)))
PRINTED = SlideSpan(date(2017, 9, 4), 240_808, ((15_949, 20), (4_411, 21)))


class SlideSighting(NamedTuple):
    """A message, and the instant of what it tells (UTC)."""

    at: datetime
    body: bytes


def sightings(span: SlideSpan) -> Iterator[SlideSighting]:
    """Every sighting of the span, day by day: of each pass one, of each visit three."""
    stays = [minutes for count, minutes in span.visits_of for _ in range(count)]
    chance = Random(f"{SEED}/{span.first}")
    chance.shuffle(stays)
    for number in range(DAYS):
        day = span.first + timedelta(number)
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        own = stays[number::DAYS]
        passes = len(range(number, span.passes, DAYS))
        for device in range(passes):
            minute = chance.randrange(FIRST_MINUTE, LAST_MINUTE)
            yield _sighting(begin, f"pass/{device}", minute, OUTSIDE_DBM)
        for device, minutes in enumerate(own):
            minute = chance.randrange(FIRST_MINUTE, LAST_MINUTE)
            for later in (0, 10, minutes - 1):
                yield _sighting(begin, f"visit/{device}", minute + later, INSIDE_DBM)


def _sighting(begin: datetime, device: str, minute: int, dbm: int) -> SlideSighting:
    at = begin + timedelta(minutes=minute)
    named = f"{begin.date()}/{device}".encode()
    told = {
        "store_id": STORE,
        "device_hash": blake2b(named, digest_size=16).hexdigest(),
        "mac_class": "fixed",
        "ap_id": "door",
        "happened_at": format_utc(at),
        "rssi_dbm": dbm,
    }
    return SlideSighting(at, json.dumps(told).encode())
