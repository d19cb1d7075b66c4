"""What is served of each window: the merge rule, and how final it is. Pure functions; nothing is read here."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Literal

from serving.merge.views import Published, ViewRow
from tally.families import Family
from tally.merge import MISSING, MergedWindow, WindowState, merge_window
from tally.windows import WINDOW

Status = Literal["final", "restated", "provisional"]
Windows = Mapping[datetime, WindowState]


@dataclass(frozen=True)
class FamilyReading:
    """Everything read of one family for one store and some days. `first` holds the windows as the first generation of each
    day served them, for days that have had more than one; master_until is of the store's partition."""

    family: Family
    partition: int
    published: Mapping[date, Published]
    batch: Windows
    speed: Windows = field(default_factory=dict)
    first: Windows = field(default_factory=dict)
    first_published: Mapping[date, Published] = field(default_factory=dict)
    master_until: Mapping[date, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ServedWindow:
    """One window as served. `complete` only from a generation that covers it."""

    merged: MergedWindow
    status: Status
    complete: bool


NEVER = datetime.min.replace(tzinfo=UTC)
UNKNOWN = ServedWindow(MISSING, "provisional", False)


def window_states(family: Family, rows: Iterable[ViewRow]) -> dict[datetime, WindowState]:
    """Rows by window. All rows of a window carry its register; one row for each value of the axes."""
    grouped: dict[datetime, list[ViewRow]] = defaultdict(list)
    for row in rows:
        grouped[row.window_start].append(row)
    return {start: _window_state(family, window) for start, window in grouped.items()}


def _window_state(family: Family, rows: Sequence[ViewRow]) -> WindowState:
    values = {row.axes: dict(zip(family.parts, row.parts, strict=True)) for row in rows}
    excluded = {row.axes: dict(zip(family.parts, row.excluded, strict=True)) for row in rows if any(row.excluded)}
    # A read that met rows of two writes shows the window's register as the richest row has it.
    epoch, events = max((row.epoch, row.events) for row in rows)
    return WindowState(epoch, events, values, excluded)


def batch_side(published: Published | None, states: Windows, start: datetime) -> WindowState | None:
    """A generation's state of one window; a covered window without a row is an empty one, of the generation's epoch."""
    state = states.get(start)
    if state is None and published is not None and covers(published, start):
        return WindowState(published.epoch, 0, {})
    return state


def covers(published: Published, start: datetime) -> bool:
    """Whether the generation holds everything that was committed for the window when it was made."""
    return start + WINDOW <= published.covered_until


def is_dirty(reading: FamilyReading, day: date) -> bool:
    """Whether the master dataset holds records of the day, in the store's partition, that the serving generation does not."""
    published = reading.published.get(day)
    return published is None or reading.master_until.get(day, 0) > published.pinned.get(reading.partition, 0)


def serve_windows(reading: FamilyReading, starts: Sequence[datetime]) -> list[ServedWindow]:
    """Each window as served, in the order asked; starts are UTC and on the grid."""
    days = {start.date() for start in starts}
    dirty = {day: is_dirty(reading, day) for day in days}
    # Most quarter hours of most stores are empty, and all those of a day are served alike.
    filled = {*reading.speed, *reading.batch, *reading.first}
    empty = {day: _empty(reading.published.get(day), dirty[day]) for day in days}
    return [_serve(reading, start, dirty) if start in filled else _served_empty(empty[start.date()], start) for start in starts]


def _empty(published: Published | None, is_dirty: bool) -> tuple[datetime, ServedWindow]:
    """Until when a day's quarter hours are covered, and what a covered one without any row is: a true zero."""
    if published is None:
        return NEVER, UNKNOWN
    return published.covered_until, ServedWindow(MergedWindow("batch", 0, {}), "provisional" if is_dirty else "final", True)


def _served_empty(day: tuple[datetime, ServedWindow], start: datetime) -> ServedWindow:
    covered_until, zero = day
    return zero if start + WINDOW <= covered_until else UNKNOWN


def _serve(reading: FamilyReading, start: datetime, dirty: Mapping[date, bool]) -> ServedWindow:
    day = start.date()
    published = reading.published.get(day)
    batch = batch_side(published, reading.batch, start)
    merged = merge_window(reading.speed.get(start), batch, covered=False)
    if merged.source != "batch":
        return UNKNOWN if merged is MISSING else ServedWindow(merged, "provisional", False)
    complete = published is not None and covers(published, start)
    return ServedWindow(merged, _status(reading, start, complete and not dirty[day]), complete)


def _status(reading: FamilyReading, start: datetime, is_settled: bool) -> Status:
    if not is_settled:
        return "provisional"
    return "restated" if _has_changed(reading, start) else "final"


def _has_changed(reading: FamilyReading, start: datetime) -> bool:
    """Whether the values differ from those of the first generation that covered the window."""
    first = reading.first_published.get(start.date())
    if first is None or not covers(first, start):
        return False
    before = batch_side(first, reading.first, start)
    now = batch_side(reading.published[start.date()], reading.batch, start)
    return _counted(before) != _counted(now)


def _counted(state: WindowState | None) -> dict[tuple[str, ...], dict[str, int]]:
    """Values without the rows that count nothing."""
    values = state.values if state is not None else {}
    return {axes: dict(parts) for axes, parts in values.items() if any(parts.values())}


def through_of(reading: FamilyReading, days: Iterable[date]) -> datetime | None:
    """The instant by which every record of the store that had arrived is counted on all of the days; None if a day has no generation."""
    instants = [reading.published[day].through.get(reading.partition) if day in reading.published else None for day in days]
    known = [instant for instant in instants if instant is not None]
    return min(known) if known and len(known) == len(instants) else None
