"""The merge rule, in pure functions: what is served for each window, and how final it is."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal

from serving.storage.tables import TillFinding, ViewRow
from tally.algebra.merge import MISSING, Axes, MergedWindow, Parts, WindowState, window_state
from tally.families.family import Family
from tally.families.generation import FirstCoverage, Generation, GenerationRange, first_covering
from tally.time.day_clock import InputDays

Status = Literal["final", "restated", "provisional", "not_measured"]
# A window with one of these statuses is not complete.
UNSETTLED = frozenset(("provisional", "not_measured"))
Windows = Mapping[datetime, WindowState]


def is_settled(statuses: Iterable[str]) -> bool:
    """Whether everything of these statuses is measured and may not change any more."""
    return UNSETTLED.isdisjoint(statuses)


def own_day(start: datetime) -> tuple[date, ...]:
    """The UTC day of a window that depends on its own events alone."""
    return (start.date(),)


@dataclass(frozen=True)
class FamilyReading:
    """Everything read of one family for one store and some days.

    `first_coverages` are the older generations that first covered windows of a day, `first_windows`
    those windows as they had them; master_until is of the store's partition, empty in a question
    about the past. `adjacent` are the generations of days that windows depend on beyond the asked
    ones. `is_measured` is False for a store that never had a sensor of the family.
    """

    family: Family
    partition: int
    published: Mapping[date, Generation]
    batch: Windows
    speed: Windows = field(default_factory=dict)
    first_coverages: Mapping[date, Sequence[FirstCoverage]] = field(default_factory=dict)
    first_windows: Windows = field(default_factory=dict)
    master_until: Mapping[date, int] = field(default_factory=dict)
    findings: Sequence[TillFinding] = ()
    is_master_behind: bool = False
    input_days: InputDays = own_day
    adjacent: Mapping[date, Generation] = field(default_factory=dict)
    is_measured: bool = True

    @property
    def rows(self) -> int:
        """The number of rows that both layers have of its windows."""
        # Rows and not windows: a window of few queues and one of thousands are not the same work.
        states = (*self.batch.values(), *self.speed.values())
        return sum(len(state.values) for state in states)


@dataclass(frozen=True)
class ServedWindow:
    """One window as served."""

    merged: MergedWindow
    status: Status


UNKNOWN = ServedWindow(MISSING, "provisional")
NOT_MEASURED = ServedWindow(MISSING, "not_measured")


def window_states(family: Family, rows: Iterable[ViewRow]) -> dict[datetime, WindowState]:
    """The state of each window by its start (UTC), from one row for each value of the axes."""
    grouped: dict[datetime, list[ViewRow]] = defaultdict(list)
    for row in rows:
        grouped[row.window_start].append(row)
    return {start: window_state(family.parts, window) for start, window in grouped.items()}


def batch_state(
    published: GenerationRange | None, states: Windows, start: datetime
) -> WindowState | None:
    """The state of one window in the published generation; None without either."""
    held = states.get(start)
    return held if published is None else published.resolve_state(start, held)


def is_dirty(reading: FamilyReading, days: Sequence[date]) -> bool:
    """Whether the master holds records that the generation of a window of these days lacks."""
    # Another day without any records needs no generation.
    has_generation = days[0] in reading.published
    return not has_generation or any(_has_newer_records(reading, day) for day in days)


def _has_newer_records(reading: FamilyReading, day: date) -> bool:
    published = reading.published.get(day) or reading.adjacent.get(day)
    pinned = published.pinned if published is not None else {}
    # A store's records lie in one partition; the others hold records of other stores.
    return reading.master_until.get(day, 0) > pinned.get(reading.partition, 0)


def _may_be_final(reading: FamilyReading, days: Sequence[date]) -> bool:
    """Whether the generation of the first day is final, for windows that depend on all the days."""
    return not (
        reading.is_master_behind
        or is_dirty(reading, days)
        or any(finding.day == days[0] for finding in reading.findings)
    )


def serve_windows(reading: FamilyReading, starts: Sequence[datetime]) -> list[ServedWindow]:
    """Each window as served, in the order asked; starts are UTC and on the grid."""
    if not reading.is_measured:
        # A generation covers a family for all stores, so these windows would otherwise be zeros.
        return [NOT_MEASURED] * len(starts)
    behind = [reading.input_days(start) for start in starts]
    final = {days: _may_be_final(reading, days) for days in {*behind}}
    # Most quarter hours of most stores are empty, and all empty ones of a day are served alike.
    filled = {*reading.speed, *reading.batch, *reading.first_windows}
    # A covered window without any row is a true zero.
    zero = MergedWindow("batch", 0, {})
    empty = {
        days: ServedWindow(zero, "final" if is_final else "provisional")
        for days, is_final in final.items()
    }
    found = []
    for start, days in zip(starts, behind, strict=True):
        if start in filled:
            found.append(_serve(reading, start, final[days]))
        else:
            published = reading.published.get(days[0])
            is_covered = published is not None and published.covers(start)
            found.append(empty[days] if is_covered else UNKNOWN)
    return found


def _serve(reading: FamilyReading, start: datetime, may_be_final: bool) -> ServedWindow:
    day = start.date()
    published = reading.published.get(day)
    is_covered = published is not None and published.covers(start)
    # A covered window without a row is a state of 0 events by now, which batch_state() returned.
    merged = reading.family.kind.merge(
        reading.family.parts,
        reading.speed.get(start),
        batch_state(published, reading.batch, start),
        is_covered,
    )
    # Never final, at any watermark: a dropped record leaves no trace by store and window.
    if merged.source != "batch":
        return UNKNOWN if merged is MISSING else ServedWindow(merged, "provisional")
    if not (is_covered and may_be_final):
        return ServedWindow(merged, "provisional")
    return ServedWindow(merged, "restated" if _has_changed(reading, start) else "final")


def _has_changed(reading: FamilyReading, start: datetime) -> bool:
    """Whether the values differ from those of the first generation that covered the window."""
    day = start.date()
    first = first_covering(reading.first_coverages.get(day, ()), start)
    if first is None:
        return False
    before = batch_state(first, reading.first_windows, start)
    now = batch_state(reading.published[day], reading.batch, start)
    return _nonzero_rows(reading.family, before) != _nonzero_rows(reading.family, now)


def _nonzero_rows(family: Family, state: WindowState | None) -> dict[Axes, Parts]:
    """The values without the rows whose parts are all zero."""
    # A row of zeros means the same as no row, so a number that turns from one to the other has not
    # changed. Each part has its own zero: a minimum of 0 is a number.
    zeros = {part.name: part.zero for part in family.parts}
    values = state.values if state is not None else {}
    return {
        axes: dict(parts)
        for axes, parts in values.items()
        if any(value != zeros[name] for name, value in parts.items())
    }


def through_instant(reading: FamilyReading, days: Iterable[date]) -> datetime | None:
    """The instant up to which every arrived record of the store is counted on all days, if any."""
    # A day without a generation has no instant, and then the whole span has none.
    return common_instant(
        reading.published[day].through.get(reading.partition) if day in reading.published else None
        for day in days
    )


def common_instant(instants: Iterable[datetime | None]) -> datetime | None:
    """The earliest of the instants up to which all is counted; None if one of them is not known."""
    found = [*instants]
    known = [instant for instant in found if instant is not None]
    return min(known) if known and len(known) == len(found) else None
