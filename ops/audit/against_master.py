"""Served windows against the canonical records of the master dataset.

They are compared in every family, part and axes value, whatever was sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from cassandra.cluster import Session

from ops.audit.master import Master, WindowKey
from ops.audit.oracle import Difference
from ops.audit.served import batch_windows, merged_windows, speed_windows
from ops.oracle.complete_journey import WHOLE, Scope
from runtime.sources import FAMILIES
from tally.algebra.merge import Axes, Parts
from tally.families import Family
from tally.generation import Generation
from tally.instants import instant_text

Values = Mapping[Axes, Parts]


@dataclass(frozen=True)
class FamilyComparison:
    """How many windows of a family were compared and equal, and each value that differs.

    `totals` are the sums of its parts over all served windows, each in the part's unit.
    """

    windows: int
    equal: int
    totals: Mapping[str, int]
    differences: list[Difference]

    @property
    def ok(self) -> bool:
        """Whether something was compared and everything is equal."""
        return self.windows > 0 and self.windows == self.equal


def compare_with_master(
    session: Session, master: Master, scope: Scope = WHOLE
) -> dict[str, FamilyComparison]:
    """By family's name every window that is served now, against the master's first copies by
    offset."""
    compared = {}
    for name, family in FAMILIES.items():
        served = {
            key: window.values or {}
            for key, window in merged_windows(session, scope, family).items()
        }
        compared[name] = compare_values(
            family, _in_scope(master.window_values(family), scope), served
        )
    return compared


def compare_speed_with_master(
    session: Session, master: Master, family: Family, scope: Scope = WHOLE
) -> FamilyComparison:
    """The speed layer's rows alone, as they are before any rebuild.

    What was late there is a difference.
    """
    windows = speed_windows(session, scope, family)
    speed = {key: state.values for key, state in windows.items()}
    return compare_values(family, _in_scope(master.window_values(family), scope), speed)


def generation_differences(
    session: Session, master: Master, family: Family, claims: Mapping[date, Generation]
) -> list[Difference]:
    """Where the published generations are not what the master holds up to their pins.

    Events are compared, and every part.
    """
    # Up to where each generation reads: what has come since is no difference.
    pins = {
        (day, number): offset
        for day, claim in claims.items()
        for number, offset in claim.pinned.items()
    }
    held = batch_windows(session, WHOLE, family, claims)
    events = master.window_events(family.name, pins)
    # Events too: a conflict is one and has no value, so that equal values alone prove less.
    counted = [
        Difference(
            store,
            instant_text(start),
            "events",
            events.get((store, start), 0),
            state.events if state else None,
        )
        for (store, start) in sorted(events.keys() | held.keys())
        if (state := held.get((store, start))) is None
        or state.events != events.get((store, start), 0)
    ]
    values = {key: state.values for key, state in held.items()}
    return counted + compare_values(family, master.window_values(family, pins), values).differences


def compare_values(
    family: Family, expected: Mapping[WindowKey, Values], served: Mapping[WindowKey, Values]
) -> FamilyComparison:
    """All windows that either side holds, part by part; a part that a side lacks is 0 there."""
    keys = sorted(expected.keys() | served.keys())
    wrong = {
        key: _differences(
            family,
            key,
            expected.get(key, {}),
            served.get(key, {}),
        )
        for key in keys
    }
    rows = [parts for values in served.values() for parts in values.values()]

    def total(name: str) -> int:
        return sum(parts.get(name, 0) for parts in rows)

    return FamilyComparison(
        windows=len(keys),
        equal=sum(not found for found in wrong.values()),
        totals={name: total(name) for name in family.sums},
        differences=[difference for found in wrong.values() for difference in found],
    )


def _differences(family: Family, key: WindowKey, expected: Values, got: Values) -> list[Difference]:
    found = []
    for axes in sorted(expected.keys() | got.keys()):
        for part in family.part_names:
            should = expected.get(axes, {}).get(part, 0)
            does = got.get(axes, {}).get(part, 0)
            if should != does:
                found.append(
                    Difference(
                        key[0],
                        instant_text(key[1]),
                        " ".join((part, *axes)),
                        should,
                        does,
                    )
                )
    return found


def _in_scope(windows: Mapping[WindowKey, Values], scope: Scope) -> dict[WindowKey, Values]:
    return {key: values for key, values in windows.items() if scope.holds(*key)}
