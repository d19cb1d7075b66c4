"""A store's cells as the rows of an answer."""

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

from serving.api import cells
from serving.api.catalogue import Metric
from serving.api.instants import shown


def rows_of(metric: Metric, found: Sequence[cells.Cell], zone: ZoneInfo, currencies: Sequence[str | None]) -> list[dict[str, Any]]:
    """One row for each cell, or one for each currency that is named; instants in the zone."""
    texts = {instant: shown(instant, zone) for instant in {one for cell in found for one in cell.slot}}
    empty: dict[tuple[frozenset[str], ...], list[dict[str, Any]]] = {}
    rows: list[dict[str, Any]] = []
    for cell in found:
        start, end = texts[cell.slot[0]], texts[cell.slot[1]]
        if cell.parts or cell.events:
            rows += _cell_rows(metric, cell, currencies, (start, end))
            continue
        # Stretches without sales differ by their time alone, and are most of an answer.
        worth = (frozenset(cell.sources), frozenset(cell.statuses))
        if worth not in empty:
            empty[worth] = _cell_rows(metric, cell, currencies, (start, end))
        rows += [{**row, "start": start, "end": end} for row in empty[worth]]
    return rows


def _cell_rows(metric: Metric, cell: cells.Cell, currencies: Sequence[str | None], instants: tuple[str, str]) -> list[dict[str, Any]]:
    rows = [cells.row_of(cell, cells.values_of(metric, cell, currency), instants) for currency in currencies]
    return [row if name is None else {**row, "by": {"currency": name}} for row, name in zip(rows, currencies, strict=True)]
