"""What the minutes of a device contribute to the windows of its store: visits, passes, stays.

A visit counts whole in the window in which it begins, and its stay with it, so that a day is the
merge of its quarter hours. All numbers are integers: two layers that hold the same minutes hold the
same rows.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from tally.algebra.keyed_sum import KeyedSum
from tally.algebra.parts import MAX_PART
from tally.events.identity import sensor_key
from tally.people.visits import (
    MINUTE_SECONDS,
    MinuteSignals,
    PeriodHours,
    Presence,
    VisitRules,
    read_presences,
    static_days,
)
from tally.time.windows import WINDOW_SECONDS

# fixed: the maker's address. random_associated: a made-up one that stays while the phone is on the
# network. random_probe: a made-up one of a phone that only looks for networks, another each time.
# access_point: the device that hears them, and reports each minute that it is there.
MacClass: TypeAlias = Literal["fixed", "random_associated", "random_probe", "access_point"]
# The classes whose presences are those of a person.
VISITOR_CLASSES: tuple[MacClass, ...] = ("fixed", "random_associated")
HASH_BITS = 128
WINDOW_MINUTES = WINDOW_SECONDS // MINUTE_SECONDS


class Contribution(NamedTuple):
    """The contribution of one device to a window: a whole number by part; an absent part is none.

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
        """The hash evenly spread from 0 to MAX_PART, as a sketch of uniques takes it."""
        return self.number * MAX_PART >> HASH_BITS


class VisitContext(NamedTuple):
    """What is known besides the minutes that are read.

    `closed_before` is the minute that the store has reached, None where its key period is over;
    `has_visited` says whether the device has visited before these minutes.
    """

    closed_before: int | None = None
    has_visited: bool = False


def device_contributions(
    device: Device,
    minutes: MinuteSignals,
    rules: VisitRules,
    hours: PeriodHours,
    known: VisitContext = VisitContext(),
) -> list[Contribution]:
    """The contributions of the device by window; none from a day on which it is static.

    `hours` are those of its key period. A presence counts once nothing can join it any more.
    """
    if device.mac_class == "access_point":
        return [*_access_point_contributions(device, minutes)]
    device_presences = read_presences(minutes, rules)
    static = static_days(device_presences, rules, hours)
    if static:
        counting_minutes = (at for at in minutes if hours.day(at) not in static)
        minutes = {at: minutes[at] for at in counting_minutes}
    counted = _select_counted(device, device_presences, (rules, hours, static), known)
    of_presences = _presence_contributions(device, minutes, counted, rules, known.has_visited)
    return [*_minute_contributions(minutes, rules), *of_presences]


def visit_days(
    device: Device,
    minutes: MinuteSignals,
    rules: VisitRules,
    hours: PeriodHours,
    known: VisitContext = VisitContext(),
) -> set[int]:
    """The days of the period on which a visit that counts begins."""
    device_presences = read_presences(minutes, rules)
    read_by = rules, hours, static_days(device_presences, rules, hours)
    counted = _select_counted(device, device_presences, read_by, known)
    return {hours.day(visit.first) for visit in counted if visit.is_visit}


# Rules, hours, and the days that do not count.
_ReadingRules: TypeAlias = tuple[VisitRules, PeriodHours, set[int]]


def _select_counted(
    device: Device,
    device_presences: Sequence[Presence],
    read_by: _ReadingRules,
    known: VisitContext,
) -> Sequence[Presence]:
    if device.mac_class not in VISITOR_CLASSES:
        # Each burst has another address: they say how many were heard, never how many people.
        return []
    rules, hours, static = read_by
    counting = [
        presence for presence in device_presences if hours.day(presence.first) not in static
    ]
    until = known.closed_before
    return counting if until is None else _select_closed(counting, rules, until)


def _select_closed(
    device_presences: Sequence[Presence], rules: VisitRules, before: int
) -> list[Presence]:
    return [presence for presence in device_presences if presence.last + rules.gap_minutes < before]


def _minute_contributions(minutes: MinuteSignals, rules: VisitRules) -> Iterator[Contribution]:
    near = (minute for minute, dbm in minutes.items() if dbm >= rules.stay_dbm)
    for start, count in Counter(map(window_start_minute, near)).items():
        yield Contribution(start, {"device_minutes": count, "device_windows": 1})


def _access_point_contributions(device: Device, minutes: MinuteSignals) -> Iterator[Contribution]:
    """The time for which an access point was there to hear anything; it is never a visit."""
    # The strength of the signal does not matter: the access point hears itself.
    key = sensor_key(device.number)
    for start, count in Counter(map(window_start_minute, minutes)).items():
        seconds = KeyedSum.encode(key, count * MINUTE_SECONDS)
        yield Contribution(start, {"observed_seconds": seconds})


def _presence_contributions(
    device: Device,
    minutes: MinuteSignals,
    device_presences: Sequence[Presence],
    rules: VisitRules,
    has_visited: bool,
) -> Iterator[Contribution]:
    # In order of time: all closed presences lie before those that are not closed.
    is_return = has_visited
    for presence in device_presences:
        if not presence.is_visit:
            yield Contribution(window_start_minute(presence.first), {"passes": 1})
            continue
        yield Contribution(
            window_start_minute(presence.first),
            {
                "visits": 1,
                "returns": int(is_return),
                "bounces": int(presence.minutes < rules.bounce_minutes),
                "stay_seconds": presence.minutes * MINUTE_SECONDS,
                "stay_minutes": presence.minutes,
                "interval_seconds": _interval(minutes, presence, rules),
                "visitors": device.digest,
            },
        )
        is_return = True


def _interval(minutes: MinuteSignals, visit: Presence, rules: VisitRules) -> int:
    """Mean seconds from one minute in which the device was heard during the visit to the next."""
    span = range(visit.first, visit.last + 1)
    count = sum(minutes.get(minute, rules.stay_dbm - 1) >= rules.stay_dbm for minute in span)
    # The device is heard at the visit's beginning and at its end, which are two minutes.
    return (visit.last - visit.first) * MINUTE_SECONDS // max(1, count - 1)


def window_start_minute(minute: int) -> int:
    """The minute (since 1970, UTC) in which the window of a minute begins."""
    return minute - minute % WINDOW_MINUTES
