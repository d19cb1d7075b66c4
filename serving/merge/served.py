"""What is served of each window: the merge rule, and how final it is.

Pure functions; nothing is read here.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal

from serving.merge.firsts import First
from serving.merge.views import Finding, ViewRow
from tally.algebra.merge import MISSING, Axes, MergedWindow, Parts, WindowState, window_state
from tally.families import Family
from tally.generation import Covering, Generation

Status = Literal["final", "restated", "provisional", "not_measured"]
# Nothing of these is complete.
UNSETTLED = frozenset(("provisional", "not_measured"))
Windows = Mapping[datetime, WindowState]
# By the start of a window the UTC days on which records that it hangs on may lie, its own first.
DaysBehind = Callable[[datetime], tuple[date, ...]]


def own_day(start: datetime) -> tuple[date, ...]:
    """The day of a window that hangs on its own events alone."""
    return (start.date(),)


@dataclass(frozen=True)
class FamilyReading:
    """Everything read of one family for one store and some days.

    `firsts`: the older generations that first covered windows of a day, `first` their windows by
    generation; master_until is of the store's partition, empty in a question about the past. `near`
    are the generations of days that windows hang on and nobody has asked for. `is_measured` is
    False of a store that has never had a sensor of the family: there nobody counts.
    """

    family: Family
    partition: int
    published: Mapping[date, Generation]
    batch: Windows
    speed: Windows = field(default_factory=dict)
    firsts: Mapping[date, Sequence[First]] = field(default_factory=dict)
    first: Mapping[int, Windows] = field(default_factory=dict)
    master_until: Mapping[date, int] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    is_master_behind: bool = False
    days_behind: DaysBehind = own_day
    near: Mapping[date, Generation] = field(default_factory=dict)
    is_measured: bool = True

    @property
    def rows(self) -> int:
        """How many rows both layers have of its windows."""
        # A window of few queues and one of thousands are not the same work.
        states = (*self.batch.values(), *self.speed.values())
        return sum(len(state.values) for state in states)


@dataclass(frozen=True)
class ServedWindow:
    """One window as served. `complete` only from a generation that covers it."""

    merged: MergedWindow
    status: Status
    complete: bool


UNKNOWN = ServedWindow(MISSING, "provisional", False)
NOT_MEASURED = ServedWindow(MISSING, "not_measured", False)


def window_states(family: Family, rows: Iterable[ViewRow]) -> dict[datetime, WindowState]:
    """Rows by window start (UTC).

    All rows of a window carry its register; one row for each value of the axes.
    """
    grouped: dict[datetime, list[ViewRow]] = defaultdict(list)
    for row in rows:
        grouped[row.window_start].append(row)
    return {start: window_state(family.parts, window) for start, window in grouped.items()}


def batch_side(published: Covering | None, states: Windows, start: datetime) -> WindowState | None:
    """The state of one window in the generation that is published, None without either."""
    held = states.get(start)
    return held if published is None else published.state_of(start, held)


def is_dirty(reading: FamilyReading, start: datetime) -> bool:
    """Whether the master holds records that the window hangs on, and its generation does not.

    They are of the store's partition of the master dataset.
    """
    return _is_any_dirty(reading, reading.days_behind(start))


def _is_any_dirty(reading: FamilyReading, days: Sequence[date]) -> bool:
    own, *others = days
    # Of another day no generation is needed where nothing was heard.
    return (
        own not in reading.published
        or _has_more(reading, own)
        or any(_has_more(reading, day) for day in others)
    )


def _has_more(reading: FamilyReading, day: date) -> bool:
    published = reading.published.get(day) or reading.near.get(day)
    pinned = published.pinned if published is not None else {}
    # A store's records lie in one partition: what the others hold is of other stores.
    return reading.master_until.get(day, 0) > pinned.get(reading.partition, 0)


def _is_settled(reading: FamilyReading, days: Sequence[date]) -> bool:
    """Whether the generation of the first day is the last word, of what hangs on all of them.

    The master holds no more and is not behind, and no conflict is open.
    """
    return not (
        reading.is_master_behind
        or _is_any_dirty(reading, days)
        or any(one.day == days[0] for one in reading.findings)
    )


def serve_windows(reading: FamilyReading, starts: Sequence[datetime]) -> list[ServedWindow]:
    """Each window as served, in the order asked; starts are UTC and on the grid."""
    if not reading.is_measured:
        # A generation covers a family for all stores: else these would be zeros.
        return [NOT_MEASURED] * len(starts)
    behind = [reading.days_behind(start) for start in starts]
    settled = {days: _is_settled(reading, days) for days in {*behind}}
    # Most quarter hours of most stores are empty, and all those of a day are served alike.
    filled = {
        *reading.speed,
        *reading.batch,
        *(start for windows in reading.first.values() for start in windows),
    }
    empty = {days: _zero(is_settled) for days, is_settled in settled.items()}
    return [
        _serve(reading, start, settled[days])
        if start in filled
        else _served_empty(reading.published.get(days[0]), start, empty[days])
        for start, days in zip(starts, behind, strict=True)
    ]


def _zero(is_settled: bool) -> ServedWindow:
    """What a covered window without any row is: a true zero."""
    return ServedWindow(
        MergedWindow("batch", 0, {}), "final" if is_settled else "provisional", True
    )


def _served_empty(
    published: Generation | None, start: datetime, empty: ServedWindow
) -> ServedWindow:
    return empty if published is not None and published.covers(start) else UNKNOWN


def _serve(reading: FamilyReading, start: datetime, is_settled: bool) -> ServedWindow:
    day = start.date()
    published = reading.published.get(day)
    complete = published is not None and published.covers(start)
    # What is covered without a row is a state of 0 events by now, which batch_side() made.
    merged = reading.family.kind.merge(
        reading.family.parts,
        reading.speed.get(start),
        batch_side(published, reading.batch, start),
        complete,
    )
    # Never complete, whatever the watermark: a late record that was dropped leaves no trace by
    # store and window.
    if merged.source != "batch":
        return UNKNOWN if merged is MISSING else ServedWindow(merged, "provisional", False)
    return ServedWindow(merged, _status(reading, start, complete and is_settled), complete)


def _status(reading: FamilyReading, start: datetime, is_settled: bool) -> Status:
    if not is_settled:
        return "provisional"
    return "restated" if _has_changed(reading, start) else "final"


def _has_changed(reading: FamilyReading, start: datetime) -> bool:
    """Whether the values differ from those of the first generation that covered the window."""
    day = start.date()
    coverings = (one.covering for one in reading.firsts.get(day, ()))
    first = next((one for one in coverings if one.covers(start)), None)
    if first is None:
        return False
    before = batch_side(first, reading.first.get(first.generation, {}), start)
    now = batch_side(reading.published[day], reading.batch, start)
    return _counted(reading.family, before) != _counted(reading.family, now)


def _counted(family: Family, state: WindowState | None) -> dict[Axes, Parts]:
    """Values without the rows that count nothing."""
    # A row of zeros says what no row does: a number that turns from one to the other has not
    # changed. Zero is each part's own: a minimum of 0 is a number.
    zeros = {part.name: part.zero for part in family.parts}
    values = state.values if state is not None else {}
    return {
        axes: dict(parts)
        for axes, parts in values.items()
        if any(value != zeros[name] for name, value in parts.items())
    }


def through_of(reading: FamilyReading, days: Iterable[date]) -> datetime | None:
    """The instant by which every record of the store that had arrived is counted on all days.

    None if a day has no generation.
    """
    instants = [
        reading.published[day].through.get(reading.partition) if day in reading.published else None
        for day in days
    ]
    # A day without a generation has no instant, and the span as a whole has none then.
    known = [instant for instant in instants if instant is not None]
    return min(known) if known and len(known) == len(instants) else None
