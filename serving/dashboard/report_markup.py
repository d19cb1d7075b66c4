"""A report's number as markup: what people read, and beside it what a machine can.

Every name is escaped here. `data-` attributes hold the numbers as JSON, as the API answers them.
"""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from serving.dashboard.charts import WEEKDAY_NAMES
from serving.dashboard.labels import NOTHING
from serving.dashboard.period import Period
from serving.dashboard.report_charts import item_text, stay_text
from serving.dashboard.report_labels import (
    STATES,
    FigureWord,
    comparison_text,
    known_text,
    state_of,
)
from serving.dashboard.unit_style import UnitStyle
from serving.query.formulas import MetricValue
from serving.query.instants import format_instant
from serving.reports.comparison import ComparedValue, Withheld
from serving.reports.items import ItemEntry
from serving.reports.report import StoreReport, ValueBeside
from serving.reports.series import DayEntry, HourEntry, StayEntry

_HOURS = range(24)
_PART = f"<span role='img' aria-label='some are missing'>{STATES['partial'][0]}</span> "


def _held(reason: str) -> str:
    return f"<span role='img' title='{escape(reason)}' aria-label='{escape(reason)}'>⊘</span> "


def state_chip(state: FigureWord) -> str:
    """A state by sign, word and colour."""
    sign, word = STATES[state]
    # The sign repeats the word, for eyes alone: a reader of screens would spell it out.
    return f"<span class='t-chip t-{state}'><span aria-hidden='true'>{sign}</span> {word}</span>"


def figure(
    report_id: str, found: ComparedValue | Withheld, style: UnitStyle, period: Period
) -> str:
    """The value with its unit, its change and how much is known; of what is withheld the reason."""
    state = state_of(found)
    named = f"<div class='t-figure' data-report='{escape(report_id)}' data-state='{state}'"
    if isinstance(found, Withheld):
        reason = escape(found.reason[:1].upper() + found.reason[1:])
        return f"{named}><div class='t-value'>{NOTHING}</div><p class='t-change'>{reason}</p></div>"
    # A dash has no unit: beside one it would read as a number of something.
    word = escape(style.word) if found.value is not None else ""
    unit = f"<span class='t-unit'>{word}</span>" if word else ""
    return (
        f"{named}{attributes(machine_values(found))}>"
        f"<div class='t-value'>{escape(style.text(found.value))}{unit}</div>"
        f"<p class='t-change'>{escape(comparison_text(found, period))}</p>"
        f"<p class='t-known'>{known_text(found)}</p></div>"
    )


def beside_value(beside: ValueBeside) -> str:
    """What says how much the number is worth."""
    # Of the units that stand beside a number none is money.
    style = UnitStyle(beside.unit, "")
    text = f"{style.text(beside.value)} {style.word}".rstrip()
    if beside.suppressed is not None:
        text = f"withheld: {beside.suppressed}"
    return f"<span{attributes({'beside': beside.value})}>{escape(text)}</span>"


def machine_values(found: ComparedValue) -> dict[str, Any]:
    """What a machine reads of a comparison, by attribute."""
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
    """The values as attributes of an element, each as JSON."""
    # JSON, for it tells null from 0 and from an empty text.
    texts = {name: escape(json.dumps(value)) for name, value in values.items()}
    return "".join(f" data-{name}='{text}'" for name, text in texts.items())


def series_table(report: StoreReport, style: UnitStyle) -> str:
    """The series as rows, or as hours by weekdays: head and body of a table."""
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
    # By start and not by number: where a zone leaves out a day, rows are found by what they are.
    zone = report.asked.zone
    rows = [
        f"<tr data-start='{format_instant(one.day.start, zone)}'><th scope='row'>"
        f"{one.day.start.astimezone(zone):%a %-d %b %Y}</th>{_day_number(one, style)}"
        f"{_number(one.previous, style, 'previous', one.previous_suppressed)}</tr>"
        for one in report.series
        if isinstance(one, DayEntry)
    ]
    return f"{head}<tbody>{''.join(rows)}</tbody>"


def _stays_table(report: StoreReport, style: UnitStyle) -> str:
    rows = [
        f"<tr data-from='{one.from_minutes}'><th scope='row'>{stay_text(one)} min</th>"
        f"{_number(one.value, style, 'value', one.suppressed)}</tr>"
        for one in report.series
        if isinstance(one, StayEntry)
    ]
    head = _head(["Stay", escape(style.word.capitalize())])
    return f"{head}<tbody>{''.join(rows)}</tbody>"


def _items_table(report: StoreReport, style: UnitStyle) -> str:
    before = f"{(report.asked.span.end - report.asked.span.start).days} days before"
    unit = escape(style.word)
    head = _head(["Item", f"These days, {unit}", f"{before}, {unit}", "Share", "Units", "Receipts"])
    share, count = UnitStyle("fraction", ""), UnitStyle("units", "")
    rows = [
        f"<tr><th scope='row'>{_item(one)}</th>{_number(one.value, style, 'value')}"
        f"{_number(one.previous, style, 'previous')}{_number(one.share, share, 'share')}"
        f"{_number(one.units, count, 'units')}{_number(one.receipts, count, 'receipts')}</tr>"
        for one in report.series
        if isinstance(one, ItemEntry)
    ]
    return f"{head}<tbody>{''.join(rows)}</tbody>"


def _item(entry: ItemEntry) -> str:
    name = item_text(entry)
    # Its id where the name is another, and what it is one of.
    below = [one for one in (entry.item_id, entry.category) if one and one != name]
    more = f"<span class='t-change'>{escape(' · '.join(below))}</span>" if below else ""
    return f"<span class='t-item'>{escape(name)}{more}</span>"


def _hours_table(report: StoreReport, style: UnitStyle) -> str:
    # Hours down and weekdays across: 168 rows would be no table that anybody reads.
    hours = [one for one in report.series if isinstance(one, HourEntry)]
    entries = {(one.weekday, one.hour): one for one in hours}
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
    # Of a few days there are hours of the week that no day of them has.
    if entry is None:
        return "<td></td>"
    mark = "" if entry.complete else _PART
    if entry.suppressed is not None:
        mark = _held(entry.suppressed)
    place = f" data-weekday='{entry.weekday}' data-hour='{entry.hour}'"
    return (
        f"<td class='t-num'{place}{attributes({'value': entry.value})}>"
        # Before the number: behind it the digits of a column would not stand below each other.
        f"{mark}{style.text(entry.value)}</td>"
    )


def _day_number(entry: DayEntry, style: UnitStyle) -> str:
    # Of a day of which nothing is known the dash says it.
    is_part = entry.value is not None and not entry.complete
    mark = _PART if is_part else ""
    if entry.suppressed is not None:
        mark = _held(entry.suppressed)
    told = attributes({"value": entry.value})
    return f"<td class='t-num'{told}>{mark}{style.text(entry.value)}</td>"


def _number(
    value: MetricValue,
    style: UnitStyle,
    name: str,
    suppressed: str | None = None,
) -> str:
    mark = _held(suppressed) if suppressed is not None else ""
    return f"<td class='t-num'{attributes({name: value})}>{mark}{style.text(value)}</td>"


def _head(names: list[str]) -> str:
    first, *others = names
    cells = "".join(f"<th scope='col' class='t-num'>{one}</th>" for one in others)
    return f"<thead><tr><th scope='col'>{first}</th>{cells}</tr></thead>"
