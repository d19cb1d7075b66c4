"""Visits and passes of a device at a store, read from the minutes in which it was heard.

The stored state of a device is a set: the minutes (UTC, since 1970) in which it was heard, each
with the strongest signal of that minute. Order, duplicates and the number of access points change
nothing, and a late sighting only ever adds. Both layers read the visits from that set with this one
function, so a late sighting that joins two visits needs no retraction: the set is read again.

A visit counts whole in the window in which it begins, and its stay with it, so that a day is the
merge of its quarter hours. All numbers are integers: layers of the same minutes have the same rows.

Signals are in dBm: below 0, and the nearer to 0 the nearer the device.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from tally.algebra.parts import MAX_PART, KeyedSum
from tally.events.identity import sensor_key
from tally.time.windows import WINDOW_SECONDS

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
    """A key period (minutes since 1970, end exclusive), and when (None: unknown) it is open."""

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

    def are_closed(self, first: int, last: int) -> bool:
        """Whether the store is closed in all of these minutes; False where hours are unknown."""
        spans = self.open_at
        return spans is not None and all(last < opens or end < first for opens, end in spans)


def static_days(
    device_presences: Sequence[Presence], rules: VisitRules, hours: PeriodHours
) -> set[int]:
    """The days of the period on which the device is not a customer's, so that none of them counts.

    It was there for `static_minutes` of the day in all, or on one visit of `closed_minutes` wholly
    outside the opening hours. The rule is per day and not per period; otherwise a customer who
    comes on each day of a long period would be staff. Only this rule lets a sighting take visits.
    """
    there: Counter[int] = Counter()
    outside = set()
    for visit in device_presences:
        if not visit.is_visit:
            continue
        there.update(map(hours.day, range(visit.first, visit.last + 1)))
        if visit.minutes >= rules.closed_minutes and hours.are_closed(visit.first, visit.last):
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
    """A key period (minutes since 1970) with the hours of its records' text.

    >>> parse_period_hours("480-1199,1500-1559", 1000, 2440).open_at
    [(1480, 2199), (2500, 2559)]
    """
    if text == UNKNOWN_HOURS:
        return PeriodHours(start, end)
    spans = [] if text == NEVER_OPEN else text.split(",")
    bounds = (map(int, span.split("-")) for span in spans)
    return PeriodHours(start, end, [(start + first, start + last) for first, last in bounds])


# fixed: the maker's address. random_associated: a made-up one that stays while the phone is on the
# network. random_probe: a made-up one of a phone that only looks for networks, another each time.
# access_point: the device that hears them, and reports each minute that it is there.
MacClass: TypeAlias = Literal["fixed", "random_associated", "random_probe", "access_point"]
# The classes whose presences are those of a person.
VISITOR_CLASSES: tuple[MacClass, ...] = ("fixed", "random_associated")
HASH_BITS = 128
WINDOW_MINUTES = WINDOW_SECONDS // MINUTE_SECONDS


# What one device contributes to a window: the window's start in minutes since 1970 (UTC), and a
# whole number by part; an absent part is none.
Contribution: TypeAlias = tuple[int, dict[str, int]]


@dataclass(frozen=True)
class Device:
    """A device in one key period: its hash, a number of 128 bits, and the kind of its address."""

    number: int
    mac_class: MacClass

    @property
    def digest(self) -> int:
        """The hash evenly spread from 0 to MAX_PART, as a sketch of uniques takes it."""
        return self.number * MAX_PART >> HASH_BITS


class VisitContext(NamedTuple):
    """What is known besides the minutes that are read.

    `closed_before` is the minute that the store has reached, None where its key period is over;
    `has_visited` says whether the device has visited before these minutes.
    """

    closed_before: int | None = None
    has_visited: bool = False


class DeviceReading(NamedTuple):
    """What a device contributes by window, and the period's days on which its visits begin."""

    contributions: list[Contribution]
    visit_days: set[int]


def read_device(
    device: Device,
    minutes: MinuteSignals,
    rules: VisitRules,
    hours: PeriodHours,
    known: VisitContext = VisitContext(),
) -> DeviceReading:
    """The reading of the device's minutes; it has nothing of days on which the device is static.

    `hours` are those of its key period. A presence counts once nothing can join it any more.
    """
    if device.mac_class == "access_point":
        return DeviceReading([*_access_point_contributions(device, minutes)], set())
    presences = read_presences(minutes, rules)
    if static := static_days(presences, rules, hours):
        counting = (at for at in minutes if hours.day(at) not in static)
        minutes = {at: minutes[at] for at in counting}
    counted = [presence for presence in presences if hours.day(presence.first) not in static]
    if (until := known.closed_before) is not None:
        counted = [presence for presence in counted if presence.last + rules.gap_minutes < until]
    if device.mac_class not in VISITOR_CLASSES:
        # Each burst has another address: they say how many were heard, never how many people.
        counted = []
    of_presences = _presence_contributions(device, minutes, counted, rules, known.has_visited)
    days = {hours.day(visit.first) for visit in counted if visit.is_visit}
    return DeviceReading([*_minute_contributions(minutes, rules), *of_presences], days)


def _minute_contributions(minutes: MinuteSignals, rules: VisitRules) -> Iterator[Contribution]:
    near = (minute for minute, dbm in minutes.items() if dbm >= rules.stay_dbm)
    for start, count in Counter(map(window_start_minute, near)).items():
        yield start, {"device_minutes": count, "device_windows": 1}


def _access_point_contributions(device: Device, minutes: MinuteSignals) -> Iterator[Contribution]:
    # The time for which it was there to hear anything; it is never a visit. The strength of the
    # signal does not matter: the access point hears itself.
    key = sensor_key(device.number)
    for start, count in Counter(map(window_start_minute, minutes)).items():
        yield start, {"observed_seconds": KeyedSum.encode(key, count * MINUTE_SECONDS)}


def _presence_contributions(
    device: Device,
    minutes: MinuteSignals,
    device_presences: Sequence[Presence],
    rules: VisitRules,
    has_visited: bool,
) -> Iterator[Contribution]:
    # In order of time: all closed presences lie before those that are not closed.
    for presence in device_presences:
        start = window_start_minute(presence.first)
        if not presence.is_visit:
            yield start, {"passes": 1}
            continue
        yield (
            start,
            {
                "visits": 1,
                "returns": int(has_visited),
                "bounces": int(presence.minutes < rules.bounce_minutes),
                "stay_seconds": presence.minutes * MINUTE_SECONDS,
                "stay_minutes": presence.minutes,
                "interval_seconds": _interval(minutes, presence, rules),
                "visitors": device.digest,
            },
        )
        has_visited = True


def _interval(minutes: MinuteSignals, visit: Presence, rules: VisitRules) -> int:
    """Mean seconds from one minute in which the device was heard during the visit to the next."""
    span = range(visit.first, visit.last + 1)
    count = sum(minutes.get(minute, rules.stay_dbm - 1) >= rules.stay_dbm for minute in span)
    # The device is heard at the visit's beginning and at its end, which are two minutes.
    return (visit.last - visit.first) * MINUTE_SECONDS // max(1, count - 1)


def window_start_minute(minute: int) -> int:
    """The minute (since 1970, UTC) in which the window of a minute begins."""
    return minute - minute % WINDOW_MINUTES
