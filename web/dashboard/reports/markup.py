"""A report's number as markup, with text for people and attributes for programs.

Every name is escaped here. `data-` attributes hold the numbers as JSON, as the API answers them.
"""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from serving.metrics.formulas import MetricValue
from serving.reports.comparison import ComparedValue, WithheldValue
from serving.reports.items import ItemEntry
from serving.reports.report import CompanionValue, StoreReport
from serving.reports.series import DayEntry, HourEntry, StayEntry
from tally.time.instants import format_instant
from web.dashboard.reports.charts import item_text, stay_text
from web.dashboard.reports.labels import (
    STATES,
    NumberState,
    comparison_text,
    completeness_text,
    number_state,
)
from web.dashboard.shared.charts import WEEKDAY_NAMES
from web.dashboard.shared.labels import NOTHING
from web.dashboard.shared.period import Period
from web.dashboard.shared.unit_style import UnitStyle

_HOURS = range(24)
_PART = f"<span role='img' aria-label='some are missing'>{STATES['partial'][0]}</span> "


def _withheld_mark(reason: str) -> str:
    return f"<span role='img' title='{escape(reason)}' aria-label='{escape(reason)}'>⊘</span> "


def state_chip(state: NumberState) -> str:
    """A state as markup: a chip with sign, word and colour."""
    sign, word = STATES[state]
    # The sign only repeats the word and is hidden from screen readers, which would spell it out.
    return f"<span class='t-chip t-{state}'><span aria-hidden='true'>{sign}</span> {word}</span>"


def figure(
    report_id: str, found: ComparedValue | WithheldValue, style: UnitStyle, period: Period
) -> str:
    """The value with its unit, change and known share; the reason instead if it is withheld."""
    state = number_state(found)
    named = f"<div class='t-figure' data-report='{escape(report_id)}' data-state='{state}'"
    if isinstance(found, WithheldValue):
        reason = escape(found.reason[:1].upper() + found.reason[1:])
        return f"{named}><div class='t-value'>{NOTHING}</div><p class='t-change'>{reason}</p></div>"
    # A dash has no unit, because with one it would look like a number.
    word = escape(style.word) if found.value is not None else ""
    unit = f"<span class='t-unit'>{word}</span>" if word else ""
    return (
        f"{named}{attributes(machine_values(found))}>"
        f"<div class='t-value'>{escape(style.text(found.value))}{unit}</div>"
        f"<p class='t-change'>{escape(comparison_text(found, period))}</p>"
        f"<p class='t-known'>{completeness_text(found)}</p></div>"
    )


def beside_value(beside: CompanionValue) -> str:
    """The value shown beside a number, which says how much the number is worth, as markup."""
    # None of the units of such values is money, so no currency is needed.
    style = UnitStyle(beside.unit, "")
    text = f"{style.text(beside.value)} {style.word}".rstrip()
    if beside.suppressed is not None:
        text = f"withheld: {beside.suppressed}"
    return f"<span{attributes({'beside': beside.value})}>{escape(text)}</span>"


def machine_values(found: ComparedValue) -> dict[str, Any]:
    """The values of a comparison for programs, by attribute name."""
    return {
        "value": found.value,
        "previous": found.previous,
        "change": found.change_percent,
        "coverage": found.coverage,
        "complete": found.complete,
        "unit": found.unit,
        **({"suppressed": found.suppressed} if found.suppressed else {}),
    }


def attributes(values: Mapping[str, Any]) -> str:
    """The values as `data-` attributes of an element, each encoded as JSON."""
    # JSON is used because it distinguishes null from 0 and from an empty text.
    texts = {name: escape(json.dumps(value)) for name, value in values.items()}
    return "".join(f" data-{name}='{text}'" for name, text in texts.items())


def series_table(report: StoreReport, style: UnitStyle) -> str:
    """The head and body of the series' table: one row per entry, or hours by weekdays."""
    if report.shape.pivot == "item":
        return _items_table(report, style)
    first = report.series[0]
    if isinstance(first, HourEntry):
        return _hours_table(report, style)
    if isinstance(first, StayEntry):
        return _stays_table(report, style)
    return _days_table(report, style)


def _days_table(report: StoreReport, style: UnitStyle) -> str:
    unit = escape(style.word or style.axis)
    head = _head(["Day", f"These days, {unit}", f"{len(report.series)} days before, {unit}"])
    # Rows are identified by their start instead of a number, because a time zone may skip a day.
    zone = report.request.zone
    rows = [
        f"<tr data-start='{format_instant(entry.day.start, zone)}'><th scope='row'>"
        f"{entry.day.start.astimezone(zone):%a %-d %b %Y}</th>{_day_number(entry, style)}"
        f"{_number(entry.previous, style, 'previous', entry.previous_suppressed)}</tr>"
        for entry in report.series
        if isinstance(entry, DayEntry)
    ]
    return f"{head}<tbody>{''.join(rows)}</tbody>"


def _stays_table(report: StoreReport, style: UnitStyle) -> str:
    rows = [
        f"<tr data-from='{entry.from_minutes}'><th scope='row'>{stay_text(entry)} min</th>"
        f"{_number(entry.value, style, 'value', entry.suppressed)}</tr>"
        for entry in report.series
        if isinstance(entry, StayEntry)
    ]
    head = _head(["Stay", escape(style.word.capitalize())])
    return f"{head}<tbody>{''.join(rows)}</tbody>"


def _items_table(report: StoreReport, style: UnitStyle) -> str:
    before = f"{(report.request.span.end - report.request.span.start).days} days before"
    unit = escape(style.word)
    head = _head(["Item", f"These days, {unit}", f"{before}, {unit}", "Share", "Units", "Receipts"])
    share, count = UnitStyle("fraction", ""), UnitStyle("units", "")
    rows = [
        f"<tr><th scope='row'>{_item(entry)}</th>{_number(entry.value, style, 'value')}"
        f"{_number(entry.previous, style, 'previous')}{_number(entry.share, share, 'share')}"
        f"{_number(entry.units, count, 'units')}{_number(entry.receipts, count, 'receipts')}</tr>"
        for entry in report.series
        if isinstance(entry, ItemEntry)
    ]
    return f"{head}<tbody>{''.join(rows)}</tbody>"


def _item(entry: ItemEntry) -> str:
    name = item_text(entry)
    # The line below shows the id if it differs from the name, and the category.
    below = [text for text in (entry.item_id, entry.category) if text and text != name]
    more = f"<span class='t-change'>{escape(' · '.join(below))}</span>" if below else ""
    return f"<span class='t-item'>{escape(name)}{more}</span>"


def _hours_table(report: StoreReport, style: UnitStyle) -> str:
    # Hours are rows and weekdays are columns, because a table of 168 rows would be unreadable.
    hours = [entry for entry in report.series if isinstance(entry, HourEntry)]
    entries = {(entry.weekday, entry.hour): entry for entry in hours}
    rows = [
        f"<tr><th scope='row'>{hour:02d}:00</th>"
        + "".join(
            _hour(entries.get((weekday, hour)), style)
            for weekday in range(1, len(WEEKDAY_NAMES) + 1)
        )
        + "</tr>"
        for hour in _HOURS
    ]
    return f"{_head(['Hour', *WEEKDAY_NAMES])}<tbody>{''.join(rows)}</tbody>"


def _hour(entry: HourEntry | None, style: UnitStyle) -> str:
    # A period of a few days does not contain every hour of the week.
    if entry is None:
        return "<td></td>"
    mark = "" if entry.complete else _PART
    if entry.suppressed is not None:
        mark = _withheld_mark(entry.suppressed)
    place = f" data-weekday='{entry.weekday}' data-hour='{entry.hour}'"
    return (
        f"<td class='t-num'{place}{attributes({'value': entry.value})}>"
        # The mark stands before the number, so that the digits of a column stay aligned.
        f"{mark}{style.text(entry.value)}</td>"
    )


def _day_number(entry: DayEntry, style: UnitStyle) -> str:
    # A day without any known value has no mark, because the dash already says so.
    is_part = entry.value is not None and not entry.complete
    mark = _PART if is_part else ""
    if entry.suppressed is not None:
        mark = _withheld_mark(entry.suppressed)
    value_attributes = attributes({"value": entry.value})
    return f"<td class='t-num'{value_attributes}>{mark}{style.text(entry.value)}</td>"


def _number(
    value: MetricValue,
    style: UnitStyle,
    name: str,
    suppressed: str | None = None,
) -> str:
    mark = _withheld_mark(suppressed) if suppressed is not None else ""
    return f"<td class='t-num'{attributes({name: value})}>{mark}{style.text(value)}</td>"


def _head(names: list[str]) -> str:
    first, *others = names
    cells = "".join(f"<th scope='col' class='t-num'>{name}</th>" for name in others)
    return f"<thead><tr><th scope='col'>{first}</th>{cells}</tr></thead>"
