"""A report in the form of its contract: fields by name, instants as text in the store's zone."""

from dataclasses import asdict
from typing import Any, Literal
from zoneinfo import ZoneInfo

from serving.reports.items import ItemEntry
from serving.reports.report import CompanionValue, StoreReport
from serving.reports.series import DayEntry, HourEntry, PivotEntry
from tally.time.instants import format_instant
from tally.time.windows import TimeRange


def report_answer(report: StoreReport) -> dict[str, Any]:
    """The fields of the answer, in the order of the contract."""
    asked, shape, found = report.request, report.shape, report.comparison
    return {
        "report": shape.id,
        "title": shape.title,
        "data_source": shape.data_source,
        "how_to_read": shape.how_to_read,
        "store": asked.store_id,
        **_span_fields(asked.span, asked.zone),
        "tz": asked.tz,
        "value": found.value,
        **_reason(found.suppressed),
        "unit": found.unit,
        "currency": found.currency,
        "previous": {
            **_span_fields(asked.before, asked.zone),
            "value": found.previous,
            **_format_unexplained(report, "before"),
            **_reason(found.suppressed_before),
        },
        "change_percent": found.change_percent,
        "coverage": found.coverage,
        "complete": found.complete,
        "through": format_instant(found.through, asked.zone) if found.through else None,
        "series": [_entry(entry, asked.zone) for entry in report.series],
        **_companion_field(report.companion),
        **_format_unexplained(report, "now"),
    }


def _format_unexplained(report: StoreReport, name: Literal["now", "before"]) -> dict[str, Any]:
    """The field of the unexplained part; empty for a report that comes from one table."""
    if report.unexplained is None:
        return {}
    return {"unexplained_minor": getattr(report.unexplained, name)}


def _companion_field(found: CompanionValue | None) -> dict[str, Any]:
    """The field of the value beside; empty for a report without one."""
    if found is None:
        return {}
    beside = {name: value for name, value in asdict(found).items() if name != "suppressed"}
    return {"beside": {**beside, **_reason(found.suppressed)}}


def _reason(suppressed: str | None, name: str = "suppressed") -> dict[str, str]:
    # Left out where nothing is withheld: readers then need not know that values can be.
    return {} if suppressed is None else {name: suppressed}


def _entry(entry: PivotEntry, zone: ZoneInfo) -> dict[str, Any]:
    # Each kind of entry has its own fields, without nulls for those of other kinds.
    match entry:
        case DayEntry():
            start, end = (format_instant(boundary, zone) for boundary in entry.day)
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


def _span_fields(span: TimeRange, zone: ZoneInfo) -> dict[str, str]:
    return {"from": format_instant(span.start, zone), "to": format_instant(span.end, zone)}
