"""The served windows of one store: both layers' states merged, each with what it is worth."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime

from serving.merge.rows import FamilyRows, Pointer, Span
from tally.merge import MergedWindow, merge_window
from tally.windows import WINDOW, utc_days, window_starts


@dataclass(frozen=True)
class DayCover:
    """What a day's generation promises for one store: windows that end by `until` are covered; `clean`: nothing came since."""

    until: datetime | None
    clean: bool


def served_windows(rows: FamilyRows, store_id: str, partition: int, span: Span) -> Iterator[tuple[datetime, MergedWindow, bool]]:
    """(window start, merged window, whether it is final), ascending, one for each window of the span.

    Final: from a generation that covers it, and no record of the store's partition and day came after that generation's pin.
    """
    covers = {day: day_cover(rows, day, partition) for day in utc_days(*span)}
    speed, batch = rows.speed.get(store_id, {}), rows.batch.get(store_id, {})
    for start in window_starts(*span):
        cover = covers[start.date()]
        covered = cover.until is not None and start + WINDOW <= cover.until
        window = merge_window(speed.get(start), batch.get(start), covered)
        yield start, window, covered and cover.clean and window.source == "batch"


def day_cover(rows: FamilyRows, day: date, partition: int) -> DayCover:
    """The promise of one day for the stores of one partition; no pointer promises nothing."""
    pointer = rows.pointers.get(day)
    if pointer is None:
        return DayCover(None, False)
    return DayCover(pointer.covered_until, rows.master_until.get((day, partition), 0) <= pointer.pinned.get(partition, 0))


def through(rows: FamilyRows, partition: int, span: Span) -> datetime | None:
    """Up to when every committed record of the partition is counted on all days of the span; None when a day has no promise."""
    pointers: list[Pointer | None] = [rows.pointers.get(day) for day in utc_days(*span)]
    instants = [pointer.through.get(partition) if pointer else None for pointer in pointers]
    known = [instant for instant in instants if instant is not None]
    return min(known) if known and len(known) == len(instants) else None
