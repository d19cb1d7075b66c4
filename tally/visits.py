"""Visits and passes of a device at a store, read from the minutes in which it was heard.

What is kept of a device is a set: the minutes (UTC, since 1970) in which it was heard, each with
the strongest signal of that minute. Order, duplicates and the number of access points change
nothing, and a late sighting only ever adds. Visits are a reading of that set, by both layers with
this one function, so that a late sighting which joins two visits needs nothing to be taken back:
what was read before is read anew.

Signals are in dBm: below 0, and the nearer to 0 the nearer the device.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

MINUTE_SECONDS = 60
# Minute since 1970 (UTC) to the strongest signal in it, in dBm.
Heard: TypeAlias = Mapping[int, int]
# Minutes since 1970 (UTC), first to last inclusive.
MinuteSpan: TypeAlias = tuple[int, int]
DAY_MINUTES = 1440


@dataclass(frozen=True)
class VisitRules:
    """By what a presence is told from noise, and a visit from a pass.

    Signals in dBm, the rest in minutes; `static_minutes` of a local day. Another value is another
    definition: a new epoch.
    """

    enter_dbm: int = -80
    stay_dbm: int = -85
    gap_minutes: int = 15
    min_stay_minutes: int = 2
    bounce_minutes: int = 5
    # A loudspeaker, a printer, somebody who works here: beyond it nobody is a customer.
    static_minutes: int = 240
    closed_minutes: int = 30


class Presence(NamedTuple):
    """One unbroken presence: minutes since 1970 (UTC), first to last inclusive.

    Of a visit the first is that of the first strong signal; a pass was only heard outside.
    """

    first: int
    last: int
    is_visit: bool

    @property
    def minutes(self) -> int:
        """How long, in minutes; one for a device that was heard in a single minute.

        Counted in minutes heard from first to last: at one sighting a minute that is without bias,
        where the seconds between the first and the last are a minute short.
        """
        return self.last - self.first + 1


def heard(sightings: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Minute to strongest signal (dBm) of some sightings: seconds since 1970 (UTC), and dBm.

    >>> heard([(59, -70), (0, -60), (61, -90), (0, -60)])
    {0: -60, 1: -90}
    """
    minutes: dict[int, int] = {}
    for seconds, dbm in sightings:
        minute = seconds // MINUTE_SECONDS
        minutes[minute] = max(dbm, minutes.get(minute, dbm))
    return minutes


def presences(minutes: Heard, rules: VisitRules) -> list[Presence]:
    """Visits and passes of one device in one key period, in order of time.

    A presence ends by silence alone, never by its length: cut "at its start + 12 hours", one late
    sighting at its beginning would move every cut behind it. With a gap of 15 and enough signal

    heard at (minute)      is read as
    0, 10, 15; 40, 41      visits 0 to 15 and 40 to 41
    … and, late, 28        one visit, 0 to 41: 28 is within 15 of either
    """
    return [_read(minutes, run, rules) for run in signal_runs(minutes, rules)]


class PeriodHours(NamedTuple):
    """A key period (minutes since 1970, end exclusive), and when its store is open in it.

    `open_at` is None where nobody has told the hours.
    """

    start: int
    end: int
    open_at: Sequence[MinuteSpan] | None = None

    def day(self, minute: int) -> int:
        """The number of the period's day, from 0, that holds a minute.

        A period is of whole days of the store. Where its clocks change in it the borders behind
        that are an hour beside the store's, at a time when hardly anybody is there.
        """
        last = max(1, round((self.end - self.start) / DAY_MINUTES)) - 1
        return max(0, min((minute - self.start) // DAY_MINUTES, last))

    def begin(self, day: int) -> int:
        """The first minute of a day of the period, by its number."""
        return self.start + day * DAY_MINUTES


def static_days(found: Sequence[Presence], rules: VisitRules, hours: PeriodHours) -> set[int]:
    """The days of the period on which the device is none of a customer's, so that nothing of them
    counts.

    It was there for `static_minutes` of the day in all, or on one visit of `closed_minutes` wholly
    outside the opening hours: by day and not by period, or whoever comes each day of a long one
    would be staff. This is the one rule by which a late sighting takes visits away.
    """
    there: Counter[int] = Counter()
    outside = set()
    for visit in found:
        if not visit.is_visit:
            continue
        stayed = range(visit.first, visit.last + 1)
        there.update(map(hours.day, stayed))
        if visit.minutes >= rules.closed_minutes and is_outside(visit, hours.open_at):
            outside.add(hours.day(visit.first))
    return outside | {day for day, minutes in there.items() if minutes >= rules.static_minutes}


def signal_runs(minutes: Heard, rules: VisitRules) -> Iterator[list[int]]:
    """Minutes with signal enough, ascending, parted where the silence is longer than the gap."""
    strong = sorted(minute for minute, dbm in minutes.items() if dbm >= rules.stay_dbm)
    if not strong:
        return
    steps = enumerate(pairwise(strong), start=1)
    cuts = [place for place, (one, next_) in steps if next_ - one > rules.gap_minutes]
    for begin, end in pairwise((0, *cuts, len(strong))):
        yield strong[begin:end]


def _read(minutes: Heard, run: Sequence[int], rules: VisitRules) -> Presence:
    inside = next((minute for minute in run if minutes[minute] >= rules.enter_dbm), None)
    if inside is not None and run[-1] - inside + 1 >= rules.min_stay_minutes:
        return Presence(inside, run[-1], is_visit=True)
    return Presence(run[0], run[-1], is_visit=False)


def is_outside(visit: Presence, open_at: Sequence[MinuteSpan] | None) -> bool:
    """Whether it lies wholly outside the opening hours; never where nobody has told them."""
    return open_at is not None and all(
        visit.last < first or last < visit.first for first, last in open_at
    )
