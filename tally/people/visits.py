"""Visits and passes of a device at a store, read from the minutes in which it was heard.

The stored state of a device is a set: the minutes (UTC, since 1970) in which it was heard, each
with the strongest signal of that minute. Order, duplicates and the number of access points change
nothing, and a late sighting only ever adds. Both layers read the visits from that set with this one
function, so a late sighting that joins two visits needs no retraction: the set is read again.

Signals are in dBm: below 0, and the nearer to 0 the nearer the device.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

MINUTE_SECONDS = 60
# Minute since 1970 (UTC) to the strongest signal in it, in dBm.
MinuteSignals: TypeAlias = Mapping[int, int]
# Minutes since 1970 (UTC), first to last inclusive.
MinuteSpan: TypeAlias = tuple[int, int]
DAY_MINUTES = 1440


@dataclass(frozen=True)
class VisitRules:
    """The thresholds that separate a presence from noise, and a visit from a pass.

    Signals are in dBm, the rest in minutes; `static_minutes` is per local day. Another value is
    another definition, so it needs a new epoch.
    """

    enter_dbm: int = -80
    stay_dbm: int = -85
    gap_minutes: int = 15
    min_stay_minutes: int = 2
    bounce_minutes: int = 5
    # A device that stays longer is a loudspeaker's, a printer's or an employee's, no customer's.
    static_minutes: int = 240
    closed_minutes: int = 30


class Presence(NamedTuple):
    """One unbroken presence: minutes since 1970 (UTC), first to last inclusive.

    A visit begins at the minute of its first strong signal; a pass was only heard outside.
    """

    first: int
    last: int
    is_visit: bool

    @property
    def minutes(self) -> int:
        """The length in minutes; 1 for a device that was heard in a single minute.

        Both the first and the last minute count: at one sighting a minute that is without bias,
        while the seconds between the first and the last sighting are a minute short.
        """
        return self.last - self.first + 1


def strongest_by_minute(sightings: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The strongest signal (dBm) by minute, of sightings (seconds since 1970 in UTC, and dBm).

    >>> strongest_by_minute([(59, -70), (0, -60), (61, -90), (0, -60)])
    {0: -60, 1: -90}
    """
    minutes: dict[int, int] = {}
    for seconds, dbm in sightings:
        minute = seconds // MINUTE_SECONDS
        minutes[minute] = max(dbm, minutes.get(minute, dbm))
    return minutes


def read_presences(minutes: MinuteSignals, rules: VisitRules) -> list[Presence]:
    """Visits and passes of one device in one key period, in order of time.

    A presence ends by silence alone, never by its length: with a cut "at its start + 12 hours", one
    late sighting at the beginning would move every later cut. With a gap of 15 and enough signal

    heard at (minute)      is read as
    0, 10, 15; 40, 41      visits 0 to 15 and 40 to 41
    … and, late, 28        one visit, 0 to 41: 28 is within 15 of either
    """
    return [_read_presence(minutes, run, rules) for run in signal_runs(minutes, rules)]


class PeriodHours(NamedTuple):
    """A key period (minutes since 1970, end exclusive), and when its store is open in it.

    `open_at` is None where the hours are unknown.
    """

    start: int
    end: int
    open_at: Sequence[MinuteSpan] | None = None

    def day(self, minute: int) -> int:
        """The number of the period's day, from 0, that holds a minute.

        A period consists of whole days of the store. If the clocks change within it, the later
        borders are an hour off the store's, at a time when hardly any customer is there.
        """
        last = max(1, round((self.end - self.start) / DAY_MINUTES)) - 1
        return max(0, min((minute - self.start) // DAY_MINUTES, last))

    def start_of_day(self, day: int) -> int:
        """The first minute of a day of the period, by its number."""
        return self.start + day * DAY_MINUTES


def static_days(
    device_presences: Sequence[Presence], rules: VisitRules, hours: PeriodHours
) -> set[int]:
    """The days of the period on which the device is not a customer's, so that none of them counts.

    It was there for `static_minutes` of the day in all, or on one visit of `closed_minutes` wholly
    outside the opening hours. The rule is per day and not per period; otherwise a customer who
    comes on each day of a long period would be staff. Only this rule lets a late sighting take
    visits away.
    """
    there: Counter[int] = Counter()
    outside = set()
    for visit in device_presences:
        if not visit.is_visit:
            continue
        stayed = range(visit.first, visit.last + 1)
        there.update(map(hours.day, stayed))
        if visit.minutes >= rules.closed_minutes and is_outside(visit, hours.open_at):
            outside.add(hours.day(visit.first))
    return outside | {day for day, minutes in there.items() if minutes >= rules.static_minutes}


def signal_runs(minutes: MinuteSignals, rules: VisitRules) -> Iterator[list[int]]:
    """Minutes with enough signal, ascending, split where the silence is longer than the gap."""
    strong = sorted(minute for minute, dbm in minutes.items() if dbm >= rules.stay_dbm)
    if not strong:
        return
    steps = enumerate(pairwise(strong), start=1)
    cuts = [place for place, (current, next_) in steps if next_ - current > rules.gap_minutes]
    for begin, end in pairwise((0, *cuts, len(strong))):
        yield strong[begin:end]


def _read_presence(minutes: MinuteSignals, run: Sequence[int], rules: VisitRules) -> Presence:
    inside = next((minute for minute in run if minutes[minute] >= rules.enter_dbm), None)
    if inside is not None and run[-1] - inside + 1 >= rules.min_stay_minutes:
        return Presence(inside, run[-1], is_visit=True)
    return Presence(run[0], run[-1], is_visit=False)


def is_outside(visit: Presence, open_at: Sequence[MinuteSpan] | None) -> bool:
    """Whether the visit lies wholly outside the opening hours; False where they are unknown."""
    return open_at is not None and all(
        visit.last < first or last < visit.first for first, last in open_at
    )


# The texts for unknown hours, and for a store that is never open. Hours separate customers from
# staff, and from devices that are there at night.
UNKNOWN_HOURS, NEVER_OPEN = "unknown", "closed"


def format_opening(spans: Sequence[MinuteSpan] | None, start: int) -> str:
    """Spans of minutes since 1970 as minutes of a period that begins at `start`, each inclusive.

    >>> format_opening([(1480, 2199), (2500, 2559)], 1000)
    '480-1199,1500-1559'
    >>> format_opening([], 0), format_opening(None, 0)
    ('closed', 'unknown')
    """
    if spans is None:
        return UNKNOWN_HOURS
    return ",".join(f"{first - start}-{last - start}" for first, last in spans) or NEVER_OPEN


def parse_period_hours(text: str, start: int, end: int) -> PeriodHours:
    """A key period (minutes since 1970) with the hours of its records' text."""
    return PeriodHours(start, end, parse_opening(text, start))


def parse_opening(text: str, start: int) -> list[MinuteSpan] | None:
    """The spans of a text in minutes since 1970, first to last inclusive; None if unknown.

    >>> parse_opening("480-1199,1500-1559", 1000)
    [(1480, 2199), (2500, 2559)]
    >>> parse_opening("closed", 0), parse_opening("unknown", 0)
    ([], None)
    """
    if text == UNKNOWN_HOURS:
        return None
    spans = [] if text == NEVER_OPEN else text.split(",")
    bounds = (map(int, span.split("-")) for span in spans)
    return [(start + first, start + last) for first, last in bounds]
