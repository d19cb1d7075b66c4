"""GET /v1/stores/{store}/calendar: the days of a store, and what cannot be asked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tally.config.settings import Settings
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_example import example
from tests.support.serving.serving_world import MemoryViews
from web.api.app import create_app

STORES = """
bar:
  tz: Europe/Bratislava
  day_starts: "04:00"
  country: SK
  opening_hours: {mon-sat: "18:00-02:00", sun: closed, holidays: closed}
  changes: {2026-11-20: {opening_hours: {mon-sun: "12:00-14:00"}}}
peak: {tz: Asia/Kathmandu, opening_hours: {mon-sun: "10:00-18:00"}}
berg: {tz: Europe/Berlin, country: DE, subdivision: BY}
samoa: {tz: Pacific/Apia}
"""


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    file = tmp_path / "stores.yaml"
    file.write_text(STORES, "utf-8")
    with asking(create_app(Settings(stores_file=file), MemoryViews(example()))) as function:
        yield function


def calendar(ask: Ask, store: str, first: str, end: str) -> dict[str, Any]:
    answer = ask(f"/v1/stores/{store}/calendar", **{"from": first, "to": end})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def refused(ask: Ask, first: str, end: str, store: str = "bar") -> tuple[int, str]:
    answer = ask(f"/v1/stores/{store}/calendar", **{"from": first, "to": end})
    return answer.status_code, answer.json()["detail"]


def test_a_day_is_answered_whole(ask: Ask) -> None:
    assert calendar(ask, "bar", "2026-03-28", "2026-03-29") == {
        "store": "bar",
        "from": "2026-03-28",
        "to": "2026-03-29",
        "tz": "Europe/Bratislava",
        "day_starts": "04:00",
        "country": "SK",
        "subdivision": None,
        "holidays_unknown": None,
        "days": [
            {
                "date": "2026-03-28",
                "start": "2026-03-28T04:00:00+01:00",
                "end": "2026-03-29T04:00:00+02:00",
                "quarter_hours": 92,
                "open": [
                    {"opens": "2026-03-28T18:00:00+01:00", "closes": "2026-03-29T03:00:00+02:00"}
                ],
                "holiday": None,
                "fiscal": {"year": 2026, "quarter": 1, "period": 2, "week": 8},
                "like_for_like": "2025-03-29",
                "because": "the same week and weekday of the fiscal year before",
            }
        ],
    }


def test_days_are_those_of_the_store_and_each_begins_where_the_last_ends(ask: Ask) -> None:
    found = calendar(ask, "peak", "2026-11-25", "2026-11-28")["days"]

    assert [day["start"] for day in found] == [
        f"2026-11-{day}T00:00:00+05:45" for day in (25, 26, 27)
    ]
    assert [day["end"] for day in found][:-1] == [day["start"] for day in found][1:]
    assert {day["quarter_hours"] for day in found} == {96}


@pytest.mark.parametrize(
    ("first", "end", "quarter_hours"),
    [
        ("2026-03-28", "2026-03-31", [96, 92, 96]),
        ("2026-10-24", "2026-10-27", [96, 100, 96]),
        ("2024-02-28", "2024-03-02", [96, 96, 96]),
    ],
)
def test_days_on_which_clocks_change_are_shorter_or_longer(
    ask: Ask, first: str, end: str, quarter_hours: list[int]
) -> None:
    found = calendar(ask, "berg", first, end)["days"]

    assert [day["quarter_hours"] for day in found] == quarter_hours


def test_hours_are_those_of_the_day_holidays_and_changes_included(ask: Ask) -> None:
    # A Sunday, a Monday, Epiphany, and the day after.
    found = calendar(ask, "bar", "2026-01-04", "2026-01-08")["days"]
    assert [len(day["open"]) for day in found] == [0, 1, 0, 1]

    last, first = calendar(ask, "bar", "2026-11-19", "2026-11-21")["days"]
    assert last["open"][0]["opens"] == "2026-11-19T18:00:00+01:00"
    assert first["open"] == [
        {"opens": "2026-11-20T12:00:00+01:00", "closes": "2026-11-20T14:00:00+01:00"}
    ]
    assert calendar(ask, "berg", "2026-11-20", "2026-11-21")["days"][0]["open"] is None


def test_a_holiday_is_named_and_like_itself(ask: Ask) -> None:
    good_friday, _, _, monday = calendar(ask, "bar", "2026-04-03", "2026-04-07")["days"]

    assert (good_friday["holiday"], good_friday["like_for_like"]) == ("Good Friday", "2025-04-18")
    assert (monday["holiday"], monday["like_for_like"]) == ("Easter Monday", "2025-04-21")
    assert monday["because"] == "Easter Monday of the year before"


def test_a_part_of_a_country_has_its_own_holidays(ask: Ask) -> None:
    found = calendar(ask, "berg", "2026-01-06", "2026-01-07")

    assert (found["subdivision"], found["days"][0]["holiday"]) == ("BY", "Epiphany")


def test_a_holiday_that_the_year_before_had_not_is_like_no_day(ask: Ask) -> None:
    # Germany celebrated the Reformation everywhere in 2017 alone.
    (day,) = calendar(ask, "berg", "2017-10-31", "2017-11-01")["days"]

    assert (day["holiday"], day["like_for_like"]) == ("Reformation Day", None)
    assert day["because"] == "Reformation Day: the year before had no such holiday"


def test_without_a_country_there_are_no_holidays_and_that_is_said(ask: Ask) -> None:
    found = calendar(ask, "peak", "2026-12-25", "2026-12-26")

    assert found["days"][0]["holiday"] is None
    assert found["holidays_unknown"] == (
        "the stores file names no `country` of the store, so no day is a holiday"
    )


def test_the_53rd_week_is_the_last_of_its_year(ask: Ask) -> None:
    found = calendar(ask, "peak", "2024-02-03", "2024-02-05")["days"]

    assert [(day["fiscal"]["year"], day["fiscal"]["week"]) for day in found] == [
        (2023, 53),
        (2024, 1),
    ]


def test_a_day_that_the_zone_has_left_out_is_none(ask: Ask) -> None:
    found = calendar(ask, "samoa", "2011-12-29", "2012-01-01")["days"]

    assert [day["date"] for day in found] == ["2011-12-29", "2011-12-31"]


def test_400_days_are_answered_and_no_more(ask: Ask) -> None:
    assert len(calendar(ask, "bar", "2026-01-01", "2027-02-05")["days"]) == 400
    assert refused(ask, "2026-01-01", "2027-02-06") == (
        422,
        "to: at most 400 days; ask for them in parts",
    )


@pytest.mark.parametrize(
    ("first", "end", "said"),
    [
        (
            "0001-01-01",
            "0001-01-02",
            "from: 0001-01-01T00:00:00+00:00 lies outside of 1971 to 2169",
        ),
        (
            "9999-12-30",
            "9999-12-31",
            "from: 9999-12-30T00:00:00+00:00 lies outside of 1971 to 2169",
        ),
        ("2026-11-26", "9999-12-31", "to: 9999-12-31T00:00:00+00:00 lies outside of 1971 to 2169"),
        ("2026-11-26", "2026-11-26", "from: 2026-11-26 is not before to: 2026-11-26"),
        ("2026-02-29", "2026-03-01", "from: '2026-02-29': expected a day as 2026-11-26"),
        ("20261126", "2026-11-27", "from: '20261126': expected a day as 2026-11-26"),
        ("2026-11-26", "2026-11-27T00:00:00Z", "to: '2026-11-27T00:00:00Z': expected a day"),
        ("2026-11-26\n", "2026-11-27", "expected a day"),
    ],
)
def test_what_is_no_span_of_days_is_refused(ask: Ask, first: str, end: str, said: str) -> None:
    status, detail = refused(ask, first, end)

    assert status == 422 and said in detail


@pytest.mark.parametrize("first", ["1971-01-03", "2169-11-11"])
def test_the_first_and_the_last_years_are_answered(ask: Ask, first: str) -> None:
    found = calendar(ask, "bar", first, f"{first[:-1]}{int(first[-1]) + 1}")

    assert len(found["days"]) == 1
    assert found["holidays_unknown"].startswith("the holidays of SK are known from 1993 to 2100")


def test_an_unknown_store_and_an_unknown_parameter_are_refused(ask: Ask) -> None:
    assert refused(ask, "2026-11-26", "2026-11-27", "nobody")[0] == 404
    answer = ask(
        "/v1/stores/bar/calendar", **{"from": "2026-11-26", "to": "2026-11-27", "tz": "UTC"}
    )
    assert (answer.status_code, answer.json()["detail"]) == (422, "tz: there is no such parameter")


def test_a_store_has_the_name_of_today(tmp_path: Path) -> None:
    file = tmp_path / "named.yaml"
    file.write_text(
        "1: {name: Old, changes: {2020-01-01: {name: New}, 2999-01-01: {name: Far}}}\n", "utf-8"
    )

    with asking(create_app(Settings(stores_file=file), MemoryViews(example()))) as ask:
        listed = ask("/v1/stores").json()["stores"]

    assert [one["name"] for one in listed if one["store_id"] == "1"] == ["New"]
