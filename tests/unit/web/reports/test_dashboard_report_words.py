import doctest
from dataclasses import replace
from datetime import date
from zoneinfo import ZoneInfo

import pytest

from schemas import loader
from serving.items import ItemAxis
from serving.questions.catalogue import MetricValue
from serving.reports.comparison import ComparedValue, StoreSpan
from serving.reports.report import StoreReport
from serving.reports.series import (
    DayEntry,
    HourEntry,
    ItemEntry,
    PivotEntry,
    StayEntry,
    UnexplainedAmounts,
)
from tally.time.instants import UTC_CLOCK
from tally.time.windows import TimeRange
from tests.support.serving.serving_world import at
from web.dashboard.shared import labels
from web.dashboard.shared.addresses import Period, answer_address, overview_address, report_address
from web.dashboard.shared.labels import UnitStyle
from web.dashboard.stores import report_figures
from web.dashboard.stores.report_figures import (
    comparison_text,
    completeness_text,
    describe_chart,
    item_text,
    quality_text,
    remainder_text,
    report_chart,
    through_text,
)

UTC = ZoneInfo("UTC")
WEEK = Period(date(2026, 11, 22), 7)
KNOWN = ComparedValue("revenue", "minor", "EUR", 1200, 1000, 20.0, 672, 672, True, True, None)
DAY = TimeRange(at("2026-11-16T00:00"), at("2026-11-17T00:00"))


def report(name: str, *series: PivotEntry) -> StoreReport:
    span = StoreSpan("367", UTC_CLOCK, TimeRange(at("2026-11-16T00:00"), at("2026-11-23T00:00")))
    return StoreReport(loader.reports()[name], span, KNOWN, series)


@pytest.mark.parametrize("module", [labels, report_figures])
def test_examples_in_the_docstrings_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("unit", "value", "text", "word"),
    [
        ("minor", 1_234_567, "12,345.67", "EUR"),
        ("seconds", 1212.999, "20 min 13 s", ""),
        ("seconds", 0, "0 s", ""),
        ("fraction", 0.0, "0.0 %", ""),
        ("visits", 12_345, "12,345", "visits"),
        ("visits", 3.0, "3.0", "visits"),
        ("visits", None, "–", "visits"),
    ],
)
def test_number_is_written_as_people_say_it(
    unit: str, value: MetricValue, text: str, word: str
) -> None:
    found = UnitStyle(unit, "EUR")

    assert (found.text(value), found.word) == (text, word)


@pytest.mark.parametrize(
    ("unit", "value", "drawn", "axis"),
    [
        ("minor", 12345, 123.45, "EUR"),
        ("seconds", 90, 1.5, "minutes"),
        ("fraction", 0.12345, 12.35, "%"),
        ("visits", 4, 4, "visits"),
        ("visits", None, None, "visits"),
    ],
)
def test_chart_draws_what_its_axis_names(
    unit: str, value: MetricValue, drawn: float | None, axis: str
) -> None:
    found = UnitStyle(unit, "EUR")

    assert (found.axis_value(value), found.axis) == (drawn, axis)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({}, "▲ 20.0 % vs the 7 days before"),
        ({"change_percent": -0.1}, "▼ 0.1 % vs the 7 days before"),
        ({"change_percent": 0.0}, "unchanged vs the 7 days before"),
        ({"change_percent": None}, "not compared: quarter hours are missing"),
        ({"change_percent": None, "previous": 0}, "0 in the 7 days before"),
        ({"change_percent": None, "previous": None}, "no value in the 7 days before"),
        ({"value": None}, "no value: it would be divided by 0"),
        ({"value": None, "known": 0}, ""),
    ],
)
def test_change_or_why_there_is_none_is_said_with_a_sign(
    changed: dict[str, MetricValue], text: str
) -> None:
    assert comparison_text(replace(KNOWN, **changed), WEEK) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (672, "100 % of the quarter hours known"),
        (671, "99.8 % of the quarter hours known, 1 missing"),
        (0, "Nothing is known of these days, which is not the same as 0."),
    ],
)
def test_share_that_is_not_whole_never_looks_so(known: int, text: str) -> None:
    assert completeness_text(replace(KNOWN, known=known)) == text


def test_instant_up_to_which_all_is_counted_is_in_the_zone_of_the_store() -> None:
    found = replace(KNOWN, through=at("2026-11-23T02:00"))

    assert through_text(found, ZoneInfo("Europe/Rome")) == "23 Nov 2026 03:00 (Europe/Rome)"
    assert through_text(KNOWN, UTC).startswith("–")


def test_days_are_bars_and_the_days_before_a_line() -> None:
    found = report("sales", DayEntry(DAY, 12345, 500), DayEntry(DAY, None, 700))

    bars, line = report_chart(found, UnitStyle("minor", "EUR"), is_small=False)["series"]

    assert (bars["type"], bars["data"]) == ("bar", [123.45, None])
    assert (line["type"], line["data"]) == ("line", [5.0, 7.0])


def test_hours_that_nobody_knows_are_left_out_of_the_heat_map() -> None:
    hours = (HourEntry(1, 9, 0.25, True), HourEntry(7, 23, None, False))
    found = report("productivity_by_hour_of_week", *hours)

    options = report_chart(found, UnitStyle("fraction", "EUR"), is_small=False)

    assert options["series"][0]["data"] == [[9, 0, 25.0]]
    assert options["visualMap"]["text"] == ["25.0 %", "0"]


def test_stays_are_bars_by_bin() -> None:
    found = report("visits_by_stay_time", StayEntry(0, 5, 3), StayEntry(5, None, 1))

    options = report_chart(found, UnitStyle("visits", "EUR"), is_small=True)

    assert options["xAxis"]["data"] == ["0–5", "5+"]
    assert options["series"][0]["data"] == [3, 1]
    assert describe_chart(found) == (
        "Visits by stay time: chart by stay time, 2 of 2 values known, complete"
    )


MILK = ItemEntry("item", "4001", "Milk", "Dairy", 1200, 3, 2, 0.8, 900)
OTHERS = ItemEntry("item", None, None, None, 300, 7, None, 0.2, 100, 12)


def test_articles_are_bars_that_lie_below_each_other() -> None:
    found = report("items", MILK, OTHERS)

    options = report_chart(found, UnitStyle("minor", "EUR"), is_small=False)

    (bars,) = options["series"]
    assert (options["yAxis"]["data"], options["yAxis"]["inverse"]) == (["Milk", "12 others"], True)
    assert [one["value"] for one in bars["data"]] == [12.0, 3.0]
    assert [one["label"]["formatter"] for one in bars["data"]] == ["12.00", "3.00"]
    colours = {one["itemStyle"]["color"] for one in bars["data"]}
    assert len(colours) == 2, "the others are no article"


def test_a_panel_has_bars_of_the_first_articles_alone() -> None:
    options = report_chart(report("items", *[MILK] * 20), UnitStyle("minor", "EUR"), is_small=True)

    assert len(options["series"][0]["data"]) == len(options["yAxis"]["data"]) == 6


@pytest.mark.parametrize(
    ("by", "item", "category", "text"),
    [
        ("item", "Milk", "Dairy", "Milk"),
        ("category", None, "Dairy", "Dairy"),
        ("category", None, None, "(no category)"),
    ],
)
def test_an_entry_is_called_by_what_it_is_of(
    by: ItemAxis, item: str | None, category: str | None, text: str
) -> None:
    assert item_text(ItemEntry(by, None, item, category, 1, 1, 1, None, 0)) == text


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (None, ""),
        (UnexplainedAmounts(0, 5), ""),
        (UnexplainedAmounts(None, None), ""),
        (
            UnexplainedAmounts(1999, 0),
            "19.99 EUR of the value are on no stored receipt, so in no item.",
        ),
        (UnexplainedAmounts(-100, 0), "The items have 1.00 EUR more than the value."),
    ],
)
def test_what_no_article_has_is_said(left: UnexplainedAmounts | None, text: str) -> None:
    found = replace(report("items", MILK), unexplained=left)

    assert remainder_text(found, UnitStyle("minor", "EUR")) == text


def test_a_value_that_its_receipts_do_not_explain_is_partial_and_says_why() -> None:
    found = replace(KNOWN, is_explained=False)

    assert found.state == "partial"
    assert "receipts do not add up" in quality_text(found)


def test_addresses_name_store_and_period_whatever_their_letters() -> None:
    assert report_address("sales", "a&b", WEEK) == (
        "/report/sales?store=a%26b&days=7&until=2026-11-22"
    )
    assert answer_address("sales", "a&b", WEEK) == (
        "/v1/reports/sales?store=a%26b&from=2026-11-16&to=2026-11-23"
    )
    assert overview_address(WEEK, 2) == "/stores?days=7&until=2026-11-22&page=2"
