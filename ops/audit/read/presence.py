"""The values that must be served for a family that is read from presences.

DuckDB reads the master's records; the meaning of their minutes is the one definition that both
layers share (tally/people/presence.py), and tests compare it with an oracle of its own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from cassandra.cluster import Session

from ops.audit.read.master import Master, MasterMinute, WindowKey
from tally.algebra.merge import Axes, Parts
from tally.families.family import Family
from tally.families.generation import AnsweredSpan, Generation
from tally.people.heard import MAC_CLASSES
from tally.people.presence import period_rows
from tally.people.visit_parts import Device
from tally.people.visits import MinuteSignals, parse_period_hours
from tally.time.instants import assume_utc

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The first excluded offset by partition, in ascending order.
PinnedOffsets = tuple[tuple[int, int], ...]
# The windows that a generation answers for, by store, day and generation.
AnsweredDays = Mapping[tuple[str, date, int], AnsweredSpan]


@dataclass
class PresenceWindows:
    """Device-minutes, and parts by axes, by (store, window start in UTC)."""

    events: Counter[WindowKey] = field(default_factory=Counter)
    values: dict[WindowKey, dict[Axes, Parts]] = field(default_factory=dict)


class CoveredWindows(NamedTuple):
    """The windows that published generations answer for, by store."""

    published: Mapping[date, Generation]
    answered_days: AnsweredDays

    def holds(self, key: WindowKey) -> bool:
        """Whether the generation of the window's day covers it, and answers for the store there."""
        store, start = key
        claim = self.published.get(start.date())
        if claim is None:
            return False
        span = self.answered_days.get((store, claim.day, claim.generation))
        return claim.limit_to(span).covers(start)


def read_answered_days(session: Session, family: Family) -> AnsweredDays:
    """The rows of the table `answered_span` for the family."""
    rows = session.execute(
        "SELECT store_id, day, generation, since, until FROM answered_span WHERE family = %s"
        " ALLOW FILTERING",
        [family.name],
    )
    found: dict[tuple[str, date, int], AnsweredSpan] = {}
    for row in rows:
        key = row.store_id, row.day.date(), row.generation
        found[key] = assume_utc(row.since), assume_utc(row.until)
    return found


def presence_windows(
    master: Master, family: Family, pins: Mapping[int, int] | None = None
) -> PresenceWindows:
    """The windows as a rebuild of the records would write them after all key periods ended.

    `pins`: the first excluded offset by partition; without them all records are read.
    """
    found = PresenceWindows()
    minutes = master.minutes(family.name, pins)
    by_period = groupby(minutes, key=lambda minute: minute[:4])
    for (store, begin, end, opening), period_minutes in by_period:
        devices = _devices(period_minutes)
        hours = parse_period_hours(opening, begin, end)
        rules = family.visit_rules.rules_for(store, begin)
        rows = list(period_rows(devices, family.parts, rules, hours))
        # Counted once per window: each row of a window has the window's device-minutes.
        heard = {row.key[0]: row.device_minutes for row in rows}
        for start, count in heard.items():
            key = store, _instant(start)
            found.events[key] += count
        # Periods overlap when a store's time zone, or a setting, has changed.
        for (start, mac_class), _, values in rows:
            window = found.values.setdefault((store, _instant(start)), {})
            parts = dict(zip(family.part_names, values, strict=True))
            so_far = window.get((mac_class,))
            window[mac_class,] = family.join_over_time(so_far, parts) if so_far else parts
    return found


def windows_at_pins(master: Master, family: Family, covered: CoveredWindows) -> PresenceWindows:
    """The covered windows, each from the records up to the pins of its day's generation."""
    # The records of days that were rebuilt together are read once.
    by_pins: dict[PinnedOffsets, list[date]] = defaultdict(list)
    for day, claim in covered.published.items():
        by_pins[*sorted(claim.pinned.items()),].append(day)
    found = PresenceWindows()
    # For a period over several days all records count, those of the other days too.
    for pins, days in by_pins.items():
        read = presence_windows(master, family, dict(pins))
        for key, count in read.events.items():
            if key[1].date() in days and covered.holds(key):
                found.events[key] = count
                found.values[key] = read.values[key]
    return found


def _devices(minutes: Iterable[MasterMinute]) -> Iterator[tuple[Device, MinuteSignals]]:
    for device, group in groupby(minutes, key=lambda minute: minute.device):
        device_minutes = list(group)
        mac_class = MAC_CLASSES[max(minute.rank for minute in device_minutes)]
        strongest = {minute.minute: minute.dbm for minute in device_minutes}
        yield Device(int(device, 16), mac_class), strongest


def _instant(minute: int) -> datetime:
    return _EPOCH + timedelta(minutes=minute)
