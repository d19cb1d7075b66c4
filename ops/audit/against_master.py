"""Comparison of every served part and axes value with the canonical records of the master."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import NamedTuple

from cassandra.cluster import Session

from ops.audit.master import Master, MasterMinute, ValuesByWindow, WindowKey, WindowValues
from ops.audit.oracle import ComparedWindows, Difference
from ops.audit.served import batch_windows, merge_windows, read_claims
from ops.oracle import WHOLE, Scope
from runtime.registry.sources import FAMILIES
from tally.algebra.merge import Axes, Parts, WindowState
from tally.algebra.parts import Value
from tally.families.family import Family
from tally.families.generation import AnsweredSpan, Generation
from tally.people.heard import MAC_CLASSES
from tally.people.presence import period_rows
from tally.people.visits import Device, MinuteSignals, parse_period_hours
from tally.time.instants import assume_utc, format_utc

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
    """The windows as a rebuild of the records, up to the pins by partition, would write them."""
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
            found.events[store, _instant(start)] += count
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


@dataclass(frozen=True)
class FamilyComparison(ComparedWindows):
    """A family's comparison: sums of parts in their units, and each value that differs."""

    totals: Mapping[str, int]
    differences: list[Difference]


def compute_expected_values(
    master: Master, families: Mapping[str, Family], scope: Scope = WHOLE
) -> dict[str, dict[WindowKey, WindowValues]]:
    """The values to serve, by family name and window, from the first copy of each event."""
    expected = {}
    for name, family in families.items():
        is_presence = family.reading is not None
        windows: ValuesByWindow = (
            presence_windows(master, family).values if is_presence else master.window_values(family)
        )
        keys = filter(lambda key: scope.holds(*key), windows)
        expected[name] = {key: windows[key] for key in keys}
    return expected


def compare_with_master(
    session: Session, expected: Mapping[str, ValuesByWindow], scope: Scope = WHOLE
) -> dict[str, FamilyComparison]:
    """Compare every window served now with the values expected of the master, by family name."""
    compared = {}
    for name, family in FAMILIES.items():
        served: dict[WindowKey, WindowValues] = {
            key: window.values or {}
            for key, window in merge_windows(session, scope, family).items()
        }
        should = expected[name]
        if family.reading is not None:
            # The speed layer answers for a key period that still runs; its visits may still grow.
            covered = CoveredWindows(
                read_claims(session, family), read_answered_days(session, family)
            )
            should = {key: values for key, values in should.items() if covered.holds(key)}
            served = {key: values for key, values in served.items() if covered.holds(key)}
        compared[name] = compare_values(family, should, served)
    return compared


def generation_differences(
    session: Session, master: Master, family: Family, claims: Mapping[date, Generation]
) -> list[Difference]:
    """The differences of the generations' events and parts from the master up to their pins."""
    rows = batch_windows(session, WHOLE, family, claims)
    if family.reading is not None:
        covered = CoveredWindows(claims, read_answered_days(session, family))
        served = {key: state for key, state in rows.items() if covered.holds(key)}
        should = windows_at_pins(master, family, covered)
        return _compare_generations(family, served, should.events, should.values)
    # Each generation reads up to its pins: records that arrived since are no difference.
    pins = {
        (day, number): offset
        for day, claim in claims.items()
        for number, offset in claim.pinned.items()
    }
    events = master.window_events(family.name, pins)
    return _compare_generations(family, rows, events, master.window_values(family, pins))


def _compare_generations(
    family: Family,
    served: Mapping[WindowKey, WindowState],
    events: Mapping[WindowKey, int],
    values: ValuesByWindow,
) -> list[Difference]:
    # Events are compared too: a conflict is an event without a value, so equal values prove less.
    counted = []
    for key in sorted(events.keys() | served.keys()):
        should, state = events.get(key, 0), served.get(key)
        if state is None or state.events != should:
            got = state.events if state else None
            where = key[0], format_utc(key[1])
            counted.append(Difference(*where, "events", should, got))
    does = {key: state.values for key, state in served.items()}
    return counted + compare_values(family, values, does).differences


def compare_values(
    family: Family, expected: ValuesByWindow, served: ValuesByWindow
) -> FamilyComparison:
    """Compare all windows of either side, part by part; a missing window counts as zero."""
    keys = sorted(expected.keys() | served.keys())
    wrong = {key: _differences(family, key, expected, served) for key in keys}
    rows = [parts for values in served.values() for parts in values.values()]

    def total(name: str) -> int:
        return sum(parts.get(name, 0) for parts in rows)

    return FamilyComparison(
        windows=len(keys),
        equal=sum(not found for found in wrong.values()),
        totals={name: total(name) for name in family.sums},
        differences=[difference for found in wrong.values() for difference in found],
    )


def _differences(
    family: Family, key: WindowKey, expected: ValuesByWindow, served: ValuesByWindow
) -> list[Difference]:
    where = partial(Difference, key[0], format_utc(key[1]))
    windows = expected.get(key, {}), served.get(key, {})
    found = []
    for axes in sorted({*windows[0], *windows[1]}):
        for part in family.parts:
            sides = (window.get(axes, {}) for window in windows)
            should, does = (_plain(side.get(part.name, part.zero)) for side in sides)
            if should != does:
                found.append(where(" ".join((part.name, *axes)), should, does))
    return found


def _plain(value: Value) -> Value:
    """The value with lists in place of the tuples that Cassandra's driver returns for pairs."""
    return [*map(_plain, value)] if isinstance(value, list | tuple) else value
