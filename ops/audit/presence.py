"""What must be served of a family that is read from presences, by the master's records.

DuckDB reads them; what their minutes mean is the one definition that both layers have
(tally/presence.py), and tests hold that against an oracle of its own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from cassandra.cluster import Session

from ops.audit.master import Master, MasterMinute, WindowKey
from tally.algebra.merge import Axes, Parts
from tally.families import Family
from tally.generation import Generation, utc
from tally.opening import period_hours
from tally.presence import CLASSES, HeardDevice, period_rows
from tally.visits import VisitRules

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# By partition the first offset that is left out, ascending.
PinnedOffsets = tuple[tuple[int, int], ...]
# By store, day and generation: since when a key period runs, of which nothing was written.
RunningPeriods = Mapping[tuple[str, date, int], datetime]


@dataclass
class PresenceWindows:
    """Device-minutes, and parts by axes, of each (store, window start in UTC)."""

    events: Counter[WindowKey] = field(default_factory=Counter)
    values: dict[WindowKey, dict[Axes, Parts]] = field(default_factory=dict)


class Covered(NamedTuple):
    """The windows that published generations answer for, store by store."""

    published: Mapping[date, Generation]
    running: RunningPeriods

    def holds(self, key: WindowKey) -> bool:
        """Whether the generation of the window's day covers it, and no key period runs there."""
        store, start = key
        claim = self.published.get(start.date())
        if claim is None:
            return False
        since = self.running.get((store, claim.day, claim.generation))
        return claim.until(since).covers(start)


def running_periods(session: Session, family: Family) -> RunningPeriods:
    """What the table `running_period` says of the family."""
    rows = session.execute(
        "SELECT store_id, day, generation, since FROM running_period WHERE family = %s"
        " ALLOW FILTERING",
        [family.name],
    )
    found: dict[tuple[str, date, int], datetime] = {}
    for row in rows:
        key = row.store_id, row.day.date(), row.generation
        found[key] = utc(row.since)
    return found


def presence_windows(
    master: Master,
    family: Family,
    pins: Mapping[int, int] | None = None,
) -> PresenceWindows:
    """The windows as a rebuild of the records would write them, were all key periods over.

    `pins` by partition: first offset that is left out; without them of all records.
    """
    found = PresenceWindows()
    minutes = master.minutes(family.name, pins)
    by_period = groupby(minutes, key=lambda one: one[:4])
    for (store, begin, end, opening), of_period in by_period:
        devices = _devices(of_period)
        hours = period_hours(opening, begin, end)
        rows = list(period_rows(devices, family.parts, VisitRules(), hours))
        # Once for each window: each of its rows has them.
        heard = {row.key[0]: row.device_minutes for row in rows}
        for start, count in heard.items():
            key = store, _instant(start)
            found.events[key] += count
        # Periods overlap where a store's zone, or a setting, has changed.
        for (start, mac_class), _, values in rows:
            window = found.values.setdefault((store, _instant(start)), {})
            parts = dict(zip(family.part_names, values, strict=True))
            so_far = window.get((mac_class,))
            window[mac_class,] = family.over_time(so_far, parts) if so_far else parts
    return found


def presence_windows_of(
    master: Master,
    family: Family,
    covered: Covered,
) -> PresenceWindows:
    """The covered windows, each of the records up to where the generation of its day has read."""
    # Of days that were rebuilt together the records are read once.
    by_pins: dict[PinnedOffsets, list[date]] = defaultdict(list)
    for day, claim in covered.published.items():
        by_pins[*sorted(claim.pinned.items()),].append(day)
    found = PresenceWindows()
    # Of a period on several days all records count, those of the other days too.
    for pins, days in by_pins.items():
        read = presence_windows(master, family, dict(pins))
        for key, count in read.events.items():
            if key[1].date() in days and covered.holds(key):
                found.events[key] = count
                found.values[key] = read.values[key]
    return found


def _devices(minutes: Iterable[MasterMinute]) -> Iterator[tuple[int, HeardDevice]]:
    for device, some in groupby(minutes, key=lambda one: one.device):
        of_device = list(some)
        mac_class = CLASSES[max(one.rank for one in of_device)]
        strongest = {one.minute: one.dbm for one in of_device}
        yield int(device, 16), HeardDevice(mac_class, strongest)


def _instant(minute: int) -> datetime:
    return _EPOCH + timedelta(minutes=minute)
