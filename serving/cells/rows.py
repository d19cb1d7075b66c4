"""A store's cells as the rows of an answer."""

from collections.abc import Sequence
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from serving.cells import cells
from serving.metrics.catalogue import Metric
from serving.questions.instants import format_instant

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
