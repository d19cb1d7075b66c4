"""The cells of a store as rows of an answer, the answer's quality, and why it is not final.

The quality is its weakest source and status, and how far records are counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from serving.cells import cells
from serving.cells.coverage import SlotCoverage
from serving.merge.reading import Pointers
from serving.merge.served import UNSETTLED, FamilyReading, common_instant, through_instant
from serving.metrics.catalogue import Metric
from tally.time.instants import format_instant


def answer_quality(
    found: Sequence[cells.Cell],
    metric: Metric,
    shown: Iterable[Sequence[Mapping[str, Any]]],
) -> dict[str, Any]:
    """The `source`, `status` and `complete` of all cells together: the weakest of each.

    A level has no `coverage`, for its cells have hours of the day in common. `shown` are their
    rows; a suppressed one among them makes the source `mixed`, which reveals no presence.
    """
    status = cells.weakest_status(status for cell in found for status in cell.statuses)
    source = cells.common_source(source for cell in found for source in cell.sources)
    watch = SlotCoverage()
    for cell in found:
        watch.rule = cell.sensor_coverage.rule
        watch.join(cell.sensor_coverage)
    # Each row has to be covered, not their total: the others do not make up for one silent hour.
    is_enough = all(cell.sensor_coverage.is_enough for cell in found)
    is_hidden = any(row.get("suppressed") for rows in shown for row in rows)
    is_shared = watch.share is not None and not metric.is_level
    return {
        "source": "mixed" if is_hidden else source,
        "status": status,
        "complete": status not in UNSETTLED and is_enough,
        **({"coverage": watch.share} if is_shared else {}),
    }


def common_through_instant(
    readings: Sequence[FamilyReading], days: Sequence[date]
) -> datetime | None:
    """The earliest instant that all families are counted up to; None if one of them has none."""
    # The slowest family decides, and one without an instant leaves the whole without one.
    return common_instant(through_instant(reading, days) for reading in readings)


def caveats(
    pointers: Iterable[Pointers], stores: Iterable[tuple[str, Sequence[FamilyReading]]]
) -> dict[str, Any]:
    """The instant since which the master is behind, and the tills with open conflicts.

    The first is null while the master keeps up.
    """
    behind = [
        pointer.master_behind_since
        for pointer in pointers
        if pointer.master_behind_since is not None
    ]
    numbering = [
        {
            "store": store_id,
            "till": finding.till_id,
            "day": finding.day,
            "conflicts": finding.conflicts,
            "records": finding.records,
        }
        for store_id, readings in stores
        for reading in readings
        for finding in reading.findings
    ]
    return {
        "master_behind_since": format_instant(min(behind)) if behind else None,
        "numbering": numbering,
    }


# Fields by name.
Rows: TypeAlias = list[dict[str, Any]]
# The quality of a cell's sum: its sources, its statuses, and the share that its sensors saw.
Quality = tuple[frozenset[str], frozenset[str], float | None]


def format_rows(
    metric: Metric, found: Sequence[cells.Cell], zone: ZoneInfo, splits: Sequence[cells.Split]
) -> list[dict[str, Any]]:
    """One row for each cell and split, by field; instants are text in the zone.

    A row names its split unless the split is the whole.
    """
    # Formatted once: each boundary is the end of one stretch and the start of the next.
    texts = {
        instant: format_instant(instant, zone)
        for instant in {boundary for cell in found for boundary in cell.slot}
    }
    empty: dict[Quality, list[dict[str, Any]]] = {}
    rows: list[dict[str, Any]] = []
    for cell in found:
        start, end = texts[cell.slot.start], texts[cell.slot.end]
        if cell.parts or cell.events:
            rows += _cell_rows(metric, cell, splits, (start, end))
            continue
        # Stretches without sales are most of an answer, and differ only by their time.
        quality = (frozenset(cell.sources), frozenset(cell.statuses), cell.sensor_coverage.share)
        if quality not in empty:
            empty[quality] = _cell_rows(metric, cell, splits, (start, end))
        rows += [{**row, "start": start, "end": end} for row in empty[quality]]
    return rows


def _cell_rows(
    metric: Metric,
    cell: cells.Cell,
    splits: Sequence[cells.Split],
    instants: tuple[str, str],
) -> list[dict[str, Any]]:
    found = zip(splits, cells.split_values(metric, cell, splits), strict=True)
    rows = ((split, cells.format_row(cell, values, instants)) for split, values in found)
    return [{**row, "by": dict(split)} if split else row for split, row in rows]
