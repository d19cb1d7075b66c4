"""The state of a device in one key period: the minutes in which it was heard, and its standing.

The minutes are stored by day, so that a sighting costs the same on the first day of a period and on
its fourteenth: the standing decides whether a sighting continues a presence; its own day, and
whether there was a visit before, decide what begins one.
"""

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tally.people.visits import (
    DAY_MINUTES,
    MINUTE_SECONDS,
    WINDOW_MINUTES,
    MacClass,
    MinuteSignals,
    PeriodHours,
    VisitRules,
    read_presences,
    signal_runs,
    static_days,
)

# The class of a device only rises: one that has joined the network once is no random probe, and one
# that has reported itself as an access point is no person's device, even if others hear it.
MAC_CLASSES: tuple[MacClass, ...] = ("random_probe", "random_associated", "fixed", "access_point")
# The classes of people's devices, which are the only ones that a sender may name.
PERSONAL_CLASSES = MAC_CLASSES[:-1]
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


class PresenceState(NamedTuple):
    """The state by which the next sighting of a device is judged; minutes since 1970 (UTC).

    `day` is the latest day of the period on which it was heard, `last` its latest minute,
    `run_last` the last minute with enough signal. `has_entered`, `is_visit` and `was_open` say of
    its last presence whether it has come in, whether it is read as a visit, and whether it overlaps
    the opening hours. `visit_minutes` are minutes of visits on the day; with `is_static` the day
    does not count.
    """

    day: int
    last: int
    run_last: int
    has_entered: bool
    is_visit: bool
    was_open: bool
    visit_minutes: int
    is_static: bool


@dataclass
class DeviceState:
    """A device's address class, and by day of the period the strongest signal (dBm) by minute."""

    mac_class: MacClass = MAC_CLASSES[0]
    days: MutableMapping[int, dict[int, int]] = field(default_factory=dict)
    presence: PresenceState | None = None
    # The days on which a visit that counts begins.
    visit_days: set[int] = field(default_factory=set)

    def minutes_since(self, first: int) -> dict[int, int]:
        """Minute to strongest signal (dBm), of a day of the period and of all days after it."""
        minutes: dict[int, int] = {}
        for day in self.days:
            if day >= first:
                minutes |= self.days[day]
        return minutes

    def has_visited_before(self, day: int) -> bool:
        """Whether a visit that counts began before a day of the period."""
        return any(visited_day < day for visited_day in self.visit_days)

    def add_sighting(self, sighting: Sighting, day: int) -> None:
        """Add one sighting of a day of the period; order and repetition do not matter."""
        self.mac_class = max(self.mac_class, sighting.mac_class, key=MAC_CLASSES.index)
        self.add_minute(sighting.minute, sighting.dbm, day)

    def add_minute(self, minute: int, dbm: int, day: int) -> None:
        """Record that the device was heard in the minute, with this signal (dBm)."""
        own = self.days.get(day, {})
        own[minute] = max(dbm, own.get(minute, dbm))
        # Assigned and not only changed in place: the days may be stored elsewhere.
        self.days[day] = own

    def minutes_on(self, day: int) -> dict[int, int]:
        """Minute to strongest signal (dBm) of one day."""
        return self.days.get(day, {})


def read_presence_state(
    minutes: MinuteSignals, rules: VisitRules, hours: PeriodHours
) -> PresenceState | None:
    """The standing of a device that was heard in these minutes; None where there are none."""
    if not minutes:
        return None
    last = max(minutes)
    day = hours.day(last)
    device_presences, runs = read_presences(minutes, rules), [*signal_runs(minutes, rules)]
    newest = device_presences[-1] if device_presences else None
    is_visit = newest is not None and newest.is_visit
    visits = [visit for visit in device_presences if visit.is_visit]
    stayed = (at for visit in visits for at in range(visit.first, visit.last + 1))
    return PresenceState(
        day,
        last,
        newest.last if newest else NEVER,
        any(minutes[at] >= rules.enter_dbm for at in runs[-1]) if runs else False,
        is_visit,
        newest is not None and is_visit and not hours.are_closed(newest.first, newest.last),
        sum(hours.day(at) == day for at in stayed),
        day in static_days(device_presences, rules, hours),
    )


def extend_presence(
    device: DeviceState, sighting: Sighting, frontier: int, rules: VisitRules, hours: PeriodHours
) -> PresenceState | None:
    """The standing after a sighting that only makes the last presence of the device longer.

    None where the sighting may change more: where it is earlier, begins or ends a presence, or
    decides how a presence is read or whether the day counts. `frontier` is the minute that the
    store has reached: a presence that is over by then counts already.
    """
    standing, minute, dbm = device.presence, sighting.minute, sighting.dbm
    if standing is None or device.mac_class not in PERSONAL_CLASSES:
        return None
    if MAC_CLASSES.index(sighting.mac_class) > MAC_CLASSES.index(device.mac_class):
        return None
    # Most sightings are by further access points in the same minute.
    before = device.minutes_on(standing.day).get(minute)
    if before is not None and dbm <= before:
        return standing
    is_near = dbm >= rules.stay_dbm
    # An earlier minute may join two presences, and each day counts its own.
    if minute < standing.last or hours.day(minute) != standing.day:
        return None
    if is_near and not standing.is_visit and (standing.has_entered or dbm >= rules.enter_dbm):
        return None
    if not is_near or minute == standing.run_last:
        return standing._replace(last=minute)
    is_joined = minute - rules.gap_minutes <= standing.run_last
    if not is_joined or hours.day(standing.run_last) != standing.day:
        return None
    # The presence has already been counted as one that has ended.
    if standing.run_last + rules.gap_minutes < frontier:
        return None
    there = standing.visit_minutes + (minute - standing.run_last if standing.is_visit else 0)
    # After a long enough visit outside the opening hours the day does not count; if the visit lasts
    # until they begin, it does.
    was_closed = standing.is_visit and not standing.was_open
    stays_closed = standing.is_static and hours.are_closed(standing.run_last + 1, minute)
    if was_closed and standing.visit_minutes < rules.static_minutes and not stays_closed:
        return None
    if not standing.is_static and there >= rules.static_minutes:
        return None
    return standing._replace(last=minute, run_last=minute, visit_minutes=there)


def first_affected_day(
    device: DeviceState, heard: Iterable[Sighting], rules: VisitRules, hours: PeriodHours
) -> int:
    """The first day of the period whose reading the sightings may change.

    From there on all days may have to be read again, and none before it. No presence lies across
    its begin. It is not after the last presence, which may still be open.
    """
    sightings = [*heard]
    rank = max((MAC_CLASSES.index(sighting.mac_class) for sighting in sightings), default=0)
    # With another class the device's whole contribution belongs to other rows; and a window in two
    # days, as in a zone that was minutes off the quarter hours, would be read by halves.
    if device.presence is None or rank > MAC_CLASSES.index(device.mac_class):
        return 0
    if hours.start % WINDOW_MINUTES:
        return 0
    standing, days = device.presence, [hours.day(sighting.minute) for sighting in sightings]
    # If no sighting was ever near enough there is no last presence.
    was_near = standing.run_last != NEVER
    days.append(hours.day(standing.run_last) if was_near else standing.day)
    day = min(days)
    near = [sighting.minute for sighting in sightings if sighting.dbm >= rules.stay_dbm]
    while day > 0 and _may_span_border(device, hours.start_of_day(day), near, rules, hours):
        day -= 1
    return day


def _may_span_border(
    device: DeviceState, border: int, near: Sequence[int], rules: VisitRules, hours: PeriodHours
) -> bool:
    """Whether a presence may lie across the begin of a day, with more minutes of enough signal."""
    gap, day = rules.gap_minutes, hours.day(border)
    # With such a gap, no presence can be distinguished from one that goes on.
    if gap >= DAY_MINUTES:
        return True
    minutes = {**device.minutes_on(day - 1), **device.minutes_on(day)}
    strong = [at for at, dbm in minutes.items() if dbm >= rules.stay_dbm]
    strong += near
    before = [at for at in strong if at < border]
    behind = [at for at in strong if at >= border]
    return bool(before and behind) and min(behind) - max(before) <= gap
