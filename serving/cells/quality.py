"""The quality of an answer as a whole, and why it is not final.

The quality is its weakest source and status, and how far records are counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from serving.cells import cells
from serving.cells.coverage import SlotCoverage
from serving.merge.reading import Pointers
from serving.merge.served import UNSETTLED, FamilyReading, through_instant
from serving.metrics.catalogue import Metric
from serving.questions.instants import format_instant


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
    instants = [through_instant(reading, days) for reading in readings]
    known = [instant for instant in instants if instant is not None]
    # The slowest family decides, and one without an instant leaves the whole without one.
    return min(known) if len(known) == len(instants) else None


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
