"""What is kept of a device in one key period: the minutes in which it was heard, and how it stands.

By days, so that a sighting costs the same on the first day of a period and on its fourteenth: what
continues a presence is told from how the device stands, and what begins one from its own day and
from whether there was a visit before.
"""

from collections import Counter
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tally.visit_parts import WINDOW_MINUTES, MacClass
from tally.visits import (
    DAY_MINUTES,
    MINUTE_SECONDS,
    Heard,
    PeriodHours,
    Presence,
    VisitRules,
    is_outside,
    presences,
    signal_runs,
    static_days,
)

# What is known of a device only rises: one that has joined the network once is no random probe, and
# what has said once that it is an access point is nobody's device, whoever else hears it.
CLASSES: tuple[MacClass, ...] = ("random_probe", "random_associated", "fixed", "access_point")
# Those of people's devices, which are all that a sender may name.
CARRIED = CLASSES[:-1]
NEVER = -(2**62)


class Sighting(NamedTuple):
    """A device heard by an access point: its number (128 bits), seconds since 1970 (UTC), dBm."""

    number: int
    mac_class: MacClass
    seconds: int
    dbm: int

    @property
    def minute(self) -> int:
        """Minutes since 1970 (UTC)."""
        return self.seconds // MINUTE_SECONDS


class DeviceStanding(NamedTuple):
    """What the next sighting of a device is judged by; minutes since 1970 (UTC).

    `day` of the period is the latest on which it was heard, `last` its latest minute, `run_last`
    the last minute with signal enough. Of its last presence: whether it has come in, whether it is
    read as a visit, and whether it overlaps the opening hours. `there` are minutes of visits on the
    day; `is_static`: nothing of the day counts.
    """

    day: int
    last: int
    run_last: int
    has_come_in: bool
    is_visit: bool
    was_open: bool
    there: int
    is_static: bool


@dataclass
class HeardDevice:
    """Class of a device's address; by day of the key period minute to strongest signal in dBm."""

    mac_class: MacClass = CLASSES[0]
    days: MutableMapping[int, dict[int, int]] = field(default_factory=dict)
    standing: DeviceStanding | None = None
    # The days on which a visit begins that counts.
    visited: set[int] = field(default_factory=set)

    def since(self, first: int) -> dict[int, int]:
        """The minutes of a day of the period and of those behind it."""
        found: dict[int, int] = {}
        for day in self.days:
            if day >= first:
                found |= self.days[day]
        return found

    def has_visited_before(self, day: int) -> bool:
        """Whether a visit that counts began before a day of the period."""
        return any(one < day for one in self.visited)

    def hear(self, sighting: Sighting, day: int) -> None:
        """Take one sighting of a day of the period, in whatever order, however often."""
        self.mac_class = max(self.mac_class, sighting.mac_class, key=CLASSES.index)
        self.add(sighting.minute, sighting.dbm, day)

    def add(self, minute: int, dbm: int, day: int) -> None:
        """It was heard in the minute, so strongly."""
        own = self.days.get(day, {})
        own[minute] = max(dbm, own.get(minute, dbm))
        # Kept anew and not only changed: where days are kept may be somewhere else.
        self.days[day] = own

    def heard_on(self, day: int) -> dict[int, int]:
        """Minute to strongest signal of one day."""
        return self.days.get(day, {})


def standing_of(minutes: Heard, rules: VisitRules, hours: PeriodHours) -> DeviceStanding | None:
    """How a device stands that was heard in these minutes; None where it was not."""
    if not minutes:
        return None
    last = max(minutes)
    day = hours.day(last)
    found, runs = presences(minutes, rules), [*signal_runs(minutes, rules)]
    newest = found[-1] if found else None
    there: Counter[int] = Counter()
    for visit in found:
        if visit.is_visit:
            there.update(map(hours.day, range(visit.first, visit.last + 1)))
    return DeviceStanding(
        day,
        last,
        newest.last if newest else NEVER,
        any(minutes[at] >= rules.enter_dbm for at in runs[-1]) if runs else False,
        newest is not None and newest.is_visit,
        newest is not None and newest.is_visit and not is_outside(newest, hours.open_at),
        there[day],
        day in static_days(found, rules, hours),
    )


def continued(
    device: HeardDevice, sighting: Sighting, frontier: int, rules: VisitRules, hours: PeriodHours
) -> DeviceStanding | None:
    """How the device stands with a sighting that only makes its last presence longer.

    None where more may come of it: of one that is earlier, begins or ends something, or decides
    what a presence is read as, or whether the day counts. `frontier` is the minute that the store
    has come to: what is over by then counts already.
    """
    one, minute, dbm = device.standing, sighting.minute, sighting.dbm
    if one is None or device.mac_class not in CARRIED:
        return None
    if CLASSES.index(sighting.mac_class) > CLASSES.index(device.mac_class):
        return None
    # Most are of further access points in the same minute.
    before = device.heard_on(one.day).get(minute)
    if before is not None and dbm <= before:
        return one
    is_near = dbm >= rules.stay_dbm
    # An earlier minute may join two presences, and each day counts its own.
    if minute < one.last or hours.day(minute) != one.day:
        return None
    if is_near and not one.is_visit and (one.has_come_in or dbm >= rules.enter_dbm):
        return None
    if not is_near or minute == one.run_last:
        return one._replace(last=minute)
    if not minute - rules.gap_minutes <= one.run_last or hours.day(one.run_last) != one.day:
        return None
    # It has been counted as one that had ended.
    if one.run_last + rules.gap_minutes < frontier:
        return None
    there = one.there + (minute - one.run_last if one.is_visit else 0)
    # Long enough outside the opening hours its day does not count; and does, if it stays until they
    # begin.
    if one.is_visit and not one.was_open and one.there < rules.static_minutes:
        stretch = Presence(one.run_last + 1, minute, is_visit=True)
        if not one.is_static or not is_outside(stretch, hours.open_at):
            return None
    if not one.is_static and there >= rules.static_minutes:
        return None
    return one._replace(last=minute, run_last=minute, there=there)


def first_day_of(
    device: HeardDevice, heard: Iterable[Sighting], rules: VisitRules, hours: PeriodHours
) -> int:
    """The first day of the period of which more sightings may change how it is read; from there on
    all days may be read anew, and none before it.

    No presence lies across its begin. It is not behind the last presence, which may still be open.
    """
    told = [*heard]
    rank = max((CLASSES.index(one.mac_class) for one in told), default=0)
    # With another class all that it has brought stands in other rows; and a window that lies in two
    # days, as where a zone was minutes beside the quarter hours, would be read by halves.
    if device.standing is None or rank > CLASSES.index(device.mac_class):
        return 0
    if hours.start % WINDOW_MINUTES:
        return 0
    standing, days = device.standing, [hours.day(one.minute) for one in told]
    # Where nothing was ever near enough there is no last presence.
    was_near = standing.run_last != NEVER
    days.append(hours.day(standing.run_last) if was_near else standing.day)
    day = min(days)
    near = [one.minute for one in told if one.dbm >= rules.stay_dbm]
    while day > 0 and _lies_across(device, hours.begin(day), near, (rules, hours)):
        day -= 1
    return day


def _lies_across(
    device: HeardDevice,
    border: int,
    near: Sequence[int],
    read_by: tuple[VisitRules, PeriodHours],
) -> bool:
    """Whether a presence may lie across the begin of a day, with more minutes of signal enough."""
    rules, hours = read_by
    gap = rules.gap_minutes
    # Of a longer one none could be told from a presence that goes on.
    if gap >= DAY_MINUTES:
        return True
    day = hours.day(border)
    strong = [
        at
        for one in (day - 1, day)
        for at, dbm in device.heard_on(one).items()
        if dbm >= rules.stay_dbm
    ]
    strong += near
    before = [at for at in strong if at < border]
    behind = [at for at in strong if at >= border]
    return bool(before and behind) and min(behind) - max(before) <= gap
