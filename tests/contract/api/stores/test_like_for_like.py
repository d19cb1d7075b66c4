"""compare=like_for_like of a report: the days of the year before, or why there are none."""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.registry.sources import SALES
from serving.storage.tables import Activity
from tally.config.settings import Settings
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_world import MemoryViews, World, flip, sale
from web.api.app import create_app

PATH = "/v1/reports/sales"
NOW, BEFORE = date(2026, 11, 23), date(2025, 11, 24)
STORES = (
    "367: {tz: Europe/Bratislava, country: SK}\nall: {tz: Europe/Bratislava}\nus: {country: US}\n"
)


def world() -> World:
    """A receipt a day of 100 cents, and in the week that it is like of as many as the date."""
    days = [first + timedelta(days=more) for first in (NOW, BEFORE) for more in range(-1, 7)]
    found = World(
        [
            sale("367", f"{day}T10:00", 1, 100 if day >= NOW else day.day, generation=7)
            for day in days
        ]
    )
    found.pointers = [(SALES, flip(str(day), 7, "2026-11-30T02:00", pin=100)) for day in days]
    found.activity = [(SALES, Activity("367", BEFORE, NOW))]
    return found


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    file = tmp_path / "stores.yaml"
    file.write_text(STORES, "utf-8")
    with asking(create_app(Settings(stores_file=file), MemoryViews(world()))) as function:
        yield function


def report(ask: Ask, first: str, end: str, **more: str) -> Any:
    asked = {"store": "367", "from": first, "to": end, **more}
    return ask(PATH, **asked).json()


def like(ask: Ask, first: str, end: str, store: str = "367") -> Any:
    return report(ask, first, end, store=store, compare="like_for_like")


def test_a_week_is_compared_with_the_same_week_of_the_fiscal_year_before(ask: Ask) -> None:
    found = like(ask, "2026-11-23", "2026-11-30")

    assert found["previous"]["from"] == "2025-11-24T00:00:00+01:00"
    assert found["previous"]["to"] == "2025-12-01T00:00:00+01:00"
    assert (found["value"], found["previous"]["value"]) == (700, sum(range(24, 31)))
    assert found["change_percent"] == 270.4
    assert [entry["previous"] for entry in found["series"]] == [*range(24, 31)]


def test_the_answer_is_as_before_where_nothing_is_said(ask: Ask) -> None:
    plain = report(ask, "2026-11-23", "2026-11-30")

    assert report(ask, "2026-11-23", "2026-11-30", compare="before") == plain
    assert plain["previous"]["from"] == "2026-11-16T00:00:00+01:00"
    assert {*like(ask, "2026-11-23", "2026-11-30")} == {*plain}


def test_a_holiday_by_itself_is_compared_with_the_same_holiday(ask: Ask) -> None:
    found = like(ask, "2026-04-06", "2026-04-07")

    assert found["previous"]["from"] == "2025-04-21T00:00:00+02:00"


def test_days_on_which_clocks_change_are_compared_as_whole_days(ask: Ask) -> None:
    found = like(ask, "2026-10-25", "2026-10-26")

    assert found["previous"] == {
        "from": "2025-10-26T00:00:00+02:00",
        "to": "2025-10-27T00:00:00+01:00",
        "value": None,
    }


def test_a_holiday_amid_the_days_is_refused_with_what_to_ask_instead(ask: Ask) -> None:
    found = like(ask, "2026-03-30", "2026-04-06")

    assert found["status"] == 422 and [one["field"] for one in found["errors"]] == ["compare"]
    assert found["detail"] == (
        "compare: the days that these are like do not follow each other (a holiday, or a year of"
        " 53 weeks); ask for each of from=2026-03-30&to=2026-04-03, from=2026-04-03&to=2026-04-04,"
        " from=2026-04-04&to=2026-04-06, or with compare=before"
    )


@pytest.mark.parametrize(
    ("first", "end"),
    [("2026-03-30", "2026-04-03"), ("2026-04-03", "2026-04-04"), ("2026-04-04", "2026-04-06")],
)
def test_what_is_said_to_ask_instead_is_answered(ask: Ask, first: str, end: str) -> None:
    assert like(ask, first, end)["report"] == "sales"


def test_two_weeks_about_a_53rd_one_are_refused(ask: Ask) -> None:
    found = like(ask, "2024-01-28", "2024-02-11", store="all")

    assert (
        "ask for each of from=2024-01-28&to=2024-02-04, from=2024-02-04&to=2024-02-11"
        in (found["detail"])
    )


def test_a_year_of_holidays_is_told_in_a_sentence_that_ends(ask: Ask) -> None:
    assert " and " in like(ask, "2026-01-01", "2027-01-01")["detail"]
    assert " more, or with compare=before" in like(ask, "2026-01-01", "2027-01-01")["detail"]


def test_a_day_that_is_like_none_is_refused_with_the_reason(ask: Ask) -> None:
    found = like(ask, "2026-07-03", "2026-07-04", store="us")

    assert found["status"] == 422
    assert found["detail"] == (
        "compare: 2026-07-03 is like no day (Independence Day (observed): the year before had no"
        " such holiday); ask for the days beside it, or with compare=before"
    )


def test_without_a_country_a_long_span_is_compared_whole(ask: Ask) -> None:
    found = like(ask, "2026-02-01", "2027-01-31", store="all")

    assert (found["previous"]["from"], found["previous"]["to"]) == (
        "2025-02-02T00:00:00+01:00",
        "2026-02-01T00:00:00+01:00",
    )


@pytest.mark.parametrize(
    ("first", "end"), [("0001-01-01", "0001-01-02"), ("9999-12-30", "9999-12-31")]
)
def test_years_that_cannot_be_asked_for_are_refused_as_ever(ask: Ask, first: str, end: str) -> None:
    assert like(ask, first, end)["status"] == 422
    assert like(ask, first, end)["errors"][0]["field"] == "from"


def test_another_comparison_is_refused(ask: Ask) -> None:
    found = report(ask, "2026-11-23", "2026-11-30", compare="like")

    assert (found["status"], found["errors"][0]["field"]) == (422, "compare")
