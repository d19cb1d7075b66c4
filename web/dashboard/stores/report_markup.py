"""A report's numbers as markup: text for people, and `data-` attributes as the API answers."""

import json
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from serving.questions.catalogue import MetricValue
from serving.reports.comparison import ComparedValue, WithheldValue
from serving.reports.report import CompanionValue, StoreReport
from serving.reports.series import DayEntry, HourEntry, ItemEntry, StayEntry
from tally.time.instants import format_instant
from web.dashboard.shared import markup
from web.dashboard.shared.addresses import Period
from web.dashboard.shared.charts import WEEKDAY_NAMES
from web.dashboard.shared.labels import NOTHING, UnitStyle
from web.dashboard.shared.markup import Attribute, Content, chip, element, join, note, span, table
from web.dashboard.stores.report_figures import (
    STATES,
    NumberState,
    comparison_text,
    completeness_text,
    item_text,
    number_state,
    stay_text,
)

# The names of a table's columns, and its rows.
TableParts = tuple[list[str], list[Markup]]
_PART = span(STATES["partial"][0], role="img", aria_label="some are missing")


def report_chip(state: NumberState) -> Markup:
    """The state of a report's number as a chip."""
    return chip(*STATES[state], state)


def figure(
    report_id: str, found: ComparedValue | WithheldValue, style: UnitStyle, period: Period
) -> Markup:
    """The value with its unit, change and known share; the reason instead if it is withheld."""
    values: dict[str, Any] = {}
    number, unit, known = NOTHING, Markup(""), Markup("")
    if isinstance(found, WithheldValue):
        change = found.reason[:1].upper() + found.reason[1:]
    else:
        number, change = style.text(found.value), comparison_text(found, period)
        # A dash has no unit, because with one it would look like a number.
        if found.value is not None and style.word:
            unit = span(style.word, class_="t-unit")
        known, values = note(completeness_text(found)), machine_values(found)
    lines = (
        element("div", number, unit, class_="t-value"),
        element("p", change, class_="t-change"),
        known,
    )
    named = {"data_report": report_id, "data_state": number_state(found)}
    return element("div", *lines, class_="t-figure", **named, **data_attributes(values))


def beside_value(beside: CompanionValue) -> Markup:
    """The value shown beside a number, which says how much the number is worth."""
    # None of the units of such values is money, so no currency is needed.
    style = UnitStyle(beside.unit, "")
    text = f"{style.text(beside.value)} {style.word}".rstrip()
    if beside.suppressed is not None:
        text = f"withheld: {beside.suppressed}"
    return span(text, **data_attributes({"beside": beside.value}))


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


def data_attributes(values: Mapping[str, Any]) -> dict[str, str]:
    """The values as the `data-` attributes of an element, each encoded as JSON."""
    # JSON is used because it distinguishes null from 0 and from an empty text.
    return {f"data_{name}": json.dumps(value) for name, value in values.items()}


def series_table(report: StoreReport, style: UnitStyle) -> Markup:
    """The table of the series: one row per entry, or hours by weekdays."""
    if report.shape.pivot == "item":
        names, rows = _items(report, style)
    elif isinstance(report.series[0], HourEntry):
        names, rows = _hours(report, style)
    elif isinstance(report.series[0], StayEntry):
        names, rows = _stays(report, style)
    else:
        names, rows = _days(report, style)
    return table(names, rows, number="t-num")


def _days(report: StoreReport, style: UnitStyle) -> TableParts:
    unit = style.word or style.axis
    names = ["Day", f"These days, {unit}", f"{len(report.series)} days before, {unit}"]
    # Rows are identified by their start instead of a number, because a time zone may skip a day.
    zone = report.request.zone
    rows = [
        _row(
            f"{entry.day.start.astimezone(zone):%a %-d %b %Y}",
            # A day without any known value has no mark, because the dash already says so.
            _number(
                entry.value,
                style,
                suppressed=entry.suppressed,
                is_part=entry.value is not None and not entry.complete,
            ),
            _number(entry.previous, style, "previous", entry.previous_suppressed),
            data_start=format_instant(entry.day.start, zone),
        )
        for entry in report.series
        if isinstance(entry, DayEntry)
    ]
    return names, rows


def _stays(report: StoreReport, style: UnitStyle) -> TableParts:
    rows = [
        _row(
            f"{stay_text(entry)} min",
            _number(entry.value, style, suppressed=entry.suppressed),
            data_from=entry.from_minutes,
        )
        for entry in report.series
        if isinstance(entry, StayEntry)
    ]
    return ["Stay", style.word.capitalize()], rows


def _items(report: StoreReport, style: UnitStyle) -> TableParts:
    days = (report.request.span.end - report.request.span.start).days
    names = ["Item", f"These days, {style.word}", f"{days} days before, {style.word}"]
    share, count = UnitStyle("fraction", ""), UnitStyle("units", "")
    rows = [
        _row(
            _item(entry),
            _number(entry.value, style),
            _number(entry.previous, style, "previous"),
            _number(entry.share, share, "share"),
            _number(entry.units, count, "units"),
            _number(entry.receipts, count, "receipts"),
        )
        for entry in report.series
        if isinstance(entry, ItemEntry)
    ]
    return [*names, "Share", "Units", "Receipts"], rows


def _item(entry: ItemEntry) -> Markup:
    name = item_text(entry)
    # The line below shows the id if it differs from the name, and the category.
    more = [text for text in (entry.item_id, entry.category) if text and text != name]
    return span(name, markup.second_line(" · ".join(more)), class_="t-item")


def _hours(report: StoreReport, style: UnitStyle) -> TableParts:
    # Hours are rows and weekdays are columns, because a table of 168 rows would be unreadable.
    hours = [entry for entry in report.series if isinstance(entry, HourEntry)]
    entries = {(entry.weekday, entry.hour): entry for entry in hours}
    weekdays = range(1, len(WEEKDAY_NAMES) + 1)
    rows = []
    for hour in range(24):
        cells = (_hour(entries.get((day, hour)), style) for day in weekdays)
        rows.append(_row(f"{hour:02d}:00", *cells))
    return ["Hour", *WEEKDAY_NAMES], rows


def _hour(entry: HourEntry | None, style: UnitStyle) -> Markup:
    # A period of a few days does not contain every hour of the week.
    if entry is None:
        return element("td")
    return _number(
        entry.value,
        style,
        suppressed=entry.suppressed,
        is_part=not entry.complete,
        data_weekday=entry.weekday,
        data_hour=entry.hour,
    )


def _row(name: Content, *cells: Markup, **attributes: Attribute) -> Markup:
    return element("tr", element("th", name, scope="row"), *cells, **attributes)


def _number(
    value: MetricValue,
    style: UnitStyle,
    name: str = "value",
    suppressed: str | None = None,
    *,
    is_part: bool = False,
    **place: Attribute,
) -> Markup:
    mark: Content = ""
    if suppressed is not None:
        mark = join([span("⊘", role="img", title=suppressed, aria_label=suppressed), " "])
    elif is_part:
        mark = join([_PART, " "])
    # The mark stands before the number, so that the digits of a column stay aligned.
    attributes = {**place, **data_attributes({name: value})}
    return element("td", mark, style.text(value), class_="t-num", **attributes)
