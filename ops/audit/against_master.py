"""Comparison of the served windows with the canonical records of the master dataset.

Every family, part and axes value is compared, for any data that was sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial

from cassandra.cluster import Session

from ops.audit.oracle import ComparedWindows, Difference
from ops.audit.read.master import Master, WindowKey, WindowValues
from ops.audit.read.presence import (
    CoveredWindows,
    presence_windows,
    read_answered_days,
    windows_at_pins,
)
from ops.audit.read.served import batch_windows, merge_windows, read_claims
from ops.oracle.complete_journey import WHOLE, Scope
from runtime.registry.sources import FAMILIES
from tally.algebra.merge import WindowState
from tally.algebra.parts import Value
from tally.families.family import Family
from tally.families.generation import Generation
from tally.time.instants import format_utc


@dataclass(frozen=True)
class FamilyComparison(ComparedWindows):
    """The comparison of a family's windows, and each value that differs.

    `totals` are the sums of its parts over all served windows, each in the part's unit.
    """

    totals: Mapping[str, int]
    differences: list[Difference]


def compute_expected_values(
    master: Master, families: Mapping[str, Family], scope: Scope = WHOLE
) -> dict[str, dict[WindowKey, WindowValues]]:
    """The values that must be served, by family name and window.

    They are computed from the first copy of each event by offset.
    """

    def values_in_scope(family: Family) -> dict[WindowKey, WindowValues]:
        windows: Mapping[WindowKey, WindowValues] = (
            master.window_values(family)
            if family.reading is None
            else presence_windows(master, family).values
        )
        return {key: values for key, values in windows.items() if scope.holds(*key)}

    return {name: values_in_scope(family) for name, family in families.items()}


def compare_with_master(
    session: Session, expected: Mapping[str, Mapping[WindowKey, WindowValues]], scope: Scope = WHOLE
) -> dict[str, FamilyComparison]:
    """Compare every window that is served now with the values expected of the master, by family
    name."""
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
    """The differences between the published generations and the master up to their pins.

    The number of events and every part are compared.
    """
    if family.reading is not None:
        return _presence_differences(session, master, family, claims)
    # Each generation reads up to its pins: records that arrived since are no difference.
    pins = {
        (day, number): offset
        for day, claim in claims.items()
        for number, offset in claim.pinned.items()
    }
    served = batch_windows(session, WHOLE, family, claims)
    events = master.window_events(family.name, pins)
    return _compare_generations(family, served, events, master.window_values(family, pins))


def _presence_differences(
    session: Session, master: Master, family: Family, claims: Mapping[date, Generation]
) -> list[Difference]:
    covered = CoveredWindows(claims, read_answered_days(session, family))
    rows = batch_windows(session, WHOLE, family, claims)
    served = {key: state for key, state in rows.items() if covered.holds(key)}
    should = windows_at_pins(master, family, covered)
    return _compare_generations(family, served, should.events, should.values)


def _compare_generations(
    family: Family,
    served: Mapping[WindowKey, WindowState],
    events: Mapping[WindowKey, int],
    values: Mapping[WindowKey, WindowValues],
) -> list[Difference]:
    # Events are compared too: a conflict is an event without a value, so equal values prove less.
    counted = [
        Difference(
            store,
            format_utc(start),
            "events",
            events.get((store, start), 0),
            state.events if state else None,
        )
        for (store, start) in sorted(events.keys() | served.keys())
        if (state := served.get((store, start))) is None
        or state.events != events.get((store, start), 0)
    ]
    does = {key: state.values for key, state in served.items()}
    return counted + compare_values(family, values, does).differences


def compare_values(
    family: Family,
    expected: Mapping[WindowKey, WindowValues],
    served: Mapping[WindowKey, WindowValues],
) -> FamilyComparison:
    """Compare all windows that either side holds, part by part.

    A window that a side lacks counts as zero there.
    """
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
    family: Family,
    key: WindowKey,
    expected: Mapping[WindowKey, WindowValues],
    served: Mapping[WindowKey, WindowValues],
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
