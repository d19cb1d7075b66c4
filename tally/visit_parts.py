"""What the minutes of a device bring to the windows of its store: visits, passes, stays.

A visit is brought whole to the window in which it begins, its stay with it, so that a day is the
merge of its quarter hours. All numbers are whole: two layers that hold the same minutes hold the
same rows.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from tally.algebra.keyed_sum import KeyedSum
from tally.algebra.parts import MOST_PART
from tally.identity import sensor_key
from tally.visits import (
    MINUTE_SECONDS,
    Heard,
    PeriodHours,
    Presence,
    VisitRules,
    presences,
    static_days,
)
from tally.windows import WINDOW_SECONDS

# fixed: the maker's address. random_associated: a made-up one that stays while the phone is on the
# network. random_probe: a made-up one of a phone that only looks for networks, another each time.
# access_point: who hears them, and says each minute that it is there.
MacClass: TypeAlias = Literal["fixed", "random_associated", "random_probe", "access_point"]
# Whose presences are those of a person.
VISITING: tuple[MacClass, ...] = ("fixed", "random_associated")
HASH_BITS = 128
WINDOW_MINUTES = WINDOW_SECONDS // MINUTE_SECONDS


class Brought(NamedTuple):
    """What one device brings to a window: by part a whole number, an absent part nothing.

    `start` is that of the window, in minutes since 1970 (UTC).
    """

    start: int
    parts: dict[str, int]


@dataclass(frozen=True)
class Device:
    """A device in one key period: its hash, a number of 128 bits, and the kind of its address."""

    number: int
    mac_class: MacClass

    @property
    def digest(self) -> int:
        """Evenly spread from 0 to MOST_PART, as a sketch of uniques takes it."""
        return self.number * MOST_PART >> HASH_BITS


class KnownBefore(NamedTuple):
    """What is known besides the minutes that are read: up to which minute the store has come, None
    where its key period is over; and whether the device has visited before these minutes."""

    closed_before: int | None = None
    has_visited: bool = False


def brought(
    device: Device,
    minutes: Heard,
    rules: VisitRules,
    hours: PeriodHours,
    known: KnownBefore = KnownBefore(),
) -> list[Brought]:
    """What the device brings, window by window; nothing of a day on which it is static.

    `hours` are those of its key period. A presence counts once nothing can join it any more.
    """
    if device.mac_class == "access_point":
        return [*_of_access_point(device, minutes)]
    found = presences(minutes, rules)
    static = static_days(found, rules, hours)
    if static:
        left = (at for at in minutes if hours.day(at) not in static)
        minutes = {at: minutes[at] for at in left}
    counted = _counted(device, found, (rules, hours, static), known)
    told = _of_presences(device, minutes, counted, rules, known.has_visited)
    return [*_of_minutes(minutes, rules), *told]


def visit_days(
    device: Device,
    minutes: Heard,
    rules: VisitRules,
    hours: PeriodHours,
    known: KnownBefore = KnownBefore(),
) -> set[int]:
    """The days of the period on which a visit begins that counts."""
    found = presences(minutes, rules)
    read_by = rules, hours, static_days(found, rules, hours)
    counted = _counted(device, found, read_by, known)
    return {hours.day(one.first) for one in counted if one.is_visit}


# Rules, hours, and the days of which nothing counts.
_ReadBy: TypeAlias = tuple[VisitRules, PeriodHours, set[int]]


def _counted(
    device: Device, found: Sequence[Presence], read_by: _ReadBy, known: KnownBefore
) -> Sequence[Presence]:
    if device.mac_class not in VISITING:
        # Each burst has another address: how many were heard, never people.
        return []
    rules, hours, static = read_by
    left = [one for one in found if hours.day(one.first) not in static]
    until = known.closed_before
    return left if until is None else _closed(left, rules, until)


def _closed(found: Sequence[Presence], rules: VisitRules, before: int) -> list[Presence]:
    return [one for one in found if one.last + rules.gap_minutes < before]


def _of_minutes(minutes: Heard, rules: VisitRules) -> Iterator[Brought]:
    near = (minute for minute, dbm in minutes.items() if dbm >= rules.stay_dbm)
    for start, count in Counter(map(window_of, near)).items():
        yield Brought(start, {"device_minutes": count, "device_windows": 1})


def _of_access_point(device: Device, minutes: Heard) -> Iterator[Brought]:
    """For how long it was there to hear anything: nobody's visit, however long."""
    # Not by how strong it is: it hears itself.
    key = sensor_key(device.number)
    for start, count in Counter(map(window_of, minutes)).items():
        seconds = KeyedSum.brings(key, count * MINUTE_SECONDS)
        yield Brought(start, {"observed_seconds": seconds})


def _of_presences(
    device: Device,
    minutes: Heard,
    found: Sequence[Presence],
    rules: VisitRules,
    has_visited: bool,
) -> Iterator[Brought]:
    # In order of time: what is closed is all that lies before what is not.
    is_return = has_visited
    for one in found:
        if not one.is_visit:
            yield Brought(window_of(one.first), {"passes": 1})
            continue
        yield Brought(
            window_of(one.first),
            {
                "visits": 1,
                "returns": int(is_return),
                "bounces": int(one.minutes < rules.bounce_minutes),
                "stay_seconds": one.minutes * MINUTE_SECONDS,
                "stay_minutes": one.minutes,
                "interval_seconds": _interval(minutes, one, rules),
                "visitors": device.digest,
            },
        )
        is_return = True


def _interval(minutes: Heard, visit: Presence, rules: VisitRules) -> int:
    """Mean seconds from one minute in which it was heard during the visit to the next."""
    span = range(visit.first, visit.last + 1)
    count = sum(minutes.get(minute, rules.stay_dbm - 1) >= rules.stay_dbm for minute in span)
    # Heard at its beginning and at its end, which are two minutes.
    return (visit.last - visit.first) * MINUTE_SECONDS // max(1, count - 1)


def window_of(minute: int) -> int:
    """The minute (since 1970, UTC) in which the window of a minute begins."""
    return minute - minute % WINDOW_MINUTES
