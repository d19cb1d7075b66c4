"""A report as its contract has it: fields by name, instants as text in the store's zone."""

from dataclasses import asdict
from typing import Any, Literal
from zoneinfo import ZoneInfo

from serving.query.grains import Slot
from serving.query.instants import format_instant
from serving.reports.items import ItemEntry
from serving.reports.report import StoreReport, ValueBeside
from serving.reports.series import DayEntry, HourEntry, PivotEntry


def report_answer(report: StoreReport) -> dict[str, Any]:
    """The fields of the answer, in the order in which they are answered."""
    asked, shape, found = report.asked, report.shape, report.comparison
    return {
        "report": shape.id,
        "title": shape.title,
        "data_source": shape.data_source,
        "how_to_read": shape.how_to_read,
        "store": asked.store_id,
        **_told(asked.span, asked.zone),
        "tz": asked.tz,
        "value": found.value,
        **_reason(found.suppressed),
        "unit": found.unit,
        "currency": found.currency,
        "previous": {
            **_told(asked.before, asked.zone),
            "value": found.previous,
            **_unexplained(report, "before"),
            **_reason(found.suppressed_before),
        },
        "change_percent": found.change_percent,
        "coverage": found.coverage,
        "complete": found.complete,
        "through": format_instant(found.through, asked.zone) if found.through else None,
        "series": [_entry(one, asked.zone) for one in report.series],
        **_beside(report.beside),
        **_unexplained(report, "now"),
    }


def _unexplained(report: StoreReport, name: Literal["now", "before"]) -> dict[str, Any]:
    """Nothing of a report that is all of one table."""
    if report.unexplained is None:
        return {}
    return {"unexplained_minor": getattr(report.unexplained, name)}


def _beside(found: ValueBeside | None) -> dict[str, Any]:
    """Nothing of a report that needs none."""
    if found is None:
        return {}
    beside = {name: value for name, value in asdict(found).items() if name != "suppressed"}
    return {"beside": {**beside, **_reason(found.suppressed)}}


def _reason(suppressed: str | None, name: str = "suppressed") -> dict[str, str]:
    # Where nothing is withheld nobody needs to know that something could be.
    return {} if suppressed is None else {name: suppressed}


def _entry(entry: PivotEntry, zone: ZoneInfo) -> dict[str, Any]:
    # Each kind has its own fields, and none of another's as null.
    match entry:
        case DayEntry():
            start, end = (format_instant(one, zone) for one in entry.day)
            both = {"value": entry.value, "previous": entry.previous}
            reasons = {
                **_reason(entry.suppressed),
                **_reason(entry.previous_suppressed, "previous_suppressed"),
            }
            return {"start": start, "end": end, **both, "complete": entry.complete, **reasons}
        case HourEntry():
            return {
                "weekday": entry.weekday,
                "hour": entry.hour,
                "value": entry.value,
                "complete": entry.complete,
                **_reason(entry.suppressed),
            }
        case ItemEntry():
            return _item(entry)
    return {
        "from_minutes": entry.from_minutes,
        "to_minutes": entry.to_minutes,
        "value": entry.value,
        **_reason(entry.suppressed),
    }


def _item(entry: ItemEntry) -> dict[str, Any]:
    named = {"item_id": entry.item_id, "item": entry.item} if entry.by == "item" else {}
    others = {} if entry.others is None else {"others": entry.others}
    return {
        **named,
        "category": entry.category,
        **others,
        "value": entry.value,
        "units": entry.units,
        "receipts": entry.receipts,
        "share": entry.share,
        "previous": entry.previous,
    }


def _told(span: Slot, zone: ZoneInfo) -> dict[str, str]:
    return {"from": format_instant(span.start, zone), "to": format_instant(span.end, zone)}
