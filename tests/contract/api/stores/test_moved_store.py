"""A bar that moves to another time zone and lets its days begin at midnight from then on: the days
before stay what they were, and all that is told agrees on each day."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from alerting.evaluate.scope.calendar import StoreCalendarDays
from runtime.registry.sources import SALES
from serving.questions.stores import StoreRegistry
from serving.storage.tables import Activity
from tally.config.settings import Settings
from tally.time.instants import to_millis
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_world import MemoryViews, World, flip, sale
from web.api.app import create_app
from web.dashboard.shared.addresses import Period
from web.dashboard.shared.figures import quarter_hours
from web.dashboard.shared.source import FigureSource

STORES = """
bar:
  tz: Europe/Bratislava
  currency: EUR
  day_starts: "04:00"
  opening_hours: {mon-sun: "18:00-02:00"}
  changes:
    2026-05-01: {tz: Europe/London, day_starts: "00:00", opening_hours: {mon-sun: "09:00-22:00"}}
"""
FIRST = date(2026, 4, 29)
# What the clock shows as each day begins, and its cents: the last two hours of the day before the
# move belong to it, though London's clocks show its evening a second time.
DAYS = {
    "2026-04-29": ("2026-04-29T04:00:00+02:00", 1_000),
    "2026-04-30": ("2026-04-30T04:00:00+02:00", 230),
    "2026-05-01": ("2026-05-01T00:00:00+01:00", 4),
    "2026-05-02": ("2026-05-02T00:00:00+01:00", None),
}
SOLD = {
    "2026-04-29T23:30": 1_000,  # 01:30 in Bratislava
    "2026-04-30T17:00": 200,
    "2026-04-30T22:45": 30,  # 00:45 there, and 23:45 in London
    "2026-04-30T23:00": 4,  # midnight in London
}


@pytest.fixture
def world() -> World:
    world = World(
        [
            sale("bar", start, 1, cents, generation=7, currency="EUR")
            for start, cents in SOLD.items()
        ]
    )
    days = [FIRST + timedelta(days=more) for more in range(-8, 5)]
    world.pointers = [(SALES, flip(str(one), 7, "2026-11-22T12:00", pin=100)) for one in days]
    world.activity = [(SALES, Activity("bar", days[0], days[-1]))]
    return world


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    file = tmp_path / "stores.yaml"
    file.write_text(STORES, "utf-8")
    return Settings(stores_file=file)


@pytest.fixture
def ask(settings: Settings, world: World) -> Iterator[Ask]:
    with asking(create_app(settings, MemoryViews(world))) as function:
        yield function


def answer(ask: Ask, first: str, end: str, **more: str) -> dict[str, Any]:
    asked = {"store": "bar", "from": first, "to": end, "tz": "store", "grain": "1d", **more}
    found = ask("/v1/metrics/revenue", **asked)
    assert found.status_code == 200, found.text
    body: dict[str, Any] = found.json()
    return body


def test_each_day_is_of_the_clock_that_the_store_had_then(ask: Ask) -> None:
    found = answer(ask, "2026-04-29", "2026-05-02")

    begins = [begin for begin, _ in DAYS.values()]
    assert [(one["start"], one["end"]) for one in found["rows"]] == [*pairwise(begins)]
    assert [one["value"] for one in found["rows"]] == [1_000, 230, 4]
    assert (found["from"], found["to"]) == (begins[0], begins[-1])


@pytest.mark.parametrize("grain", ["15m", "1h"])
def test_its_quarter_hours_and_hours_add_up_to_each_day(ask: Ask, grain: str) -> None:
    sums = [
        sum(one["value"] or 0 for one in answer(ask, begin, end, grain=grain)["rows"])
        for begin, end in pairwise(DAYS)
    ]

    assert sums == [1_000, 230, 4]


def test_calendar_and_report_agree_on_each_day(ask: Ask) -> None:
    span = {"from": "2026-04-29", "to": "2026-05-02"}

    listed = ask("/v1/stores/bar/calendar", **span).json()
    report = ask("/v1/reports/sales", store="bar", **span).json()

    begins = [begin for begin, _ in DAYS.values()]
    assert [(one["start"], one["end"]) for one in listed["days"]] == [*pairwise(begins)]
    assert (listed["tz"], listed["day_starts"]) == ("Europe/London", "00:00")
    assert (report["from"], report["to"]) == (begins[0], begins[-1])
    assert [one["value"] for one in report["series"]] == [1_000, 230, 4]
    assert report["value"] == 1_234


@pytest.mark.parametrize("day", [*DAYS][:-1])
def test_level_alert_and_page_have_the_same_day(settings: Settings, world: World, day: str) -> None:
    begins = {name: datetime.fromisoformat(begin) for name, (begin, _) in DAYS.items()}
    following = (date.fromisoformat(day) + timedelta(days=1)).isoformat()
    span = (begins[day].astimezone(UTC), begins[following].astimezone(UTC))
    store = StoreRegistry.load(settings).store("bar")
    period = Period(date.fromisoformat(day), 7)

    slots = quarter_hours(store, date.fromisoformat(day)).slots
    of_alerts = {StoreCalendarDays(store).day(to_millis(one.start)) for one in slots}
    page = asyncio.run(FigureSource(settings, MemoryViews(world)).figures(store, period))

    assert (slots[0].start, slots[-1].end) == span
    assert of_alerts == {(to_millis(span[0]), to_millis(span[1]))}
    assert period.span(store.clock).end == span[1]
    assert (str(page.days[-1].day), page.days[-1].batch) == (day, DAYS[day][1])


@pytest.mark.parametrize(
    ("zone", "first", "status"),
    [
        ("Europe/London", "2026-05-01", 200),
        ("Europe/Bratislava", "2026-04-28", 200),
        # Over the move no zone has the name of all days.
        ("Europe/London", "2026-04-29", 422),
        ("Europe/Bratislava", "2026-04-29", 422),
    ],
)
def test_a_level_of_days_is_asked_by_the_zone_that_the_store_had_then(
    ask: Ask, zone: str, first: str, status: int
) -> None:
    end = str(date.fromisoformat(first) + timedelta(days=2 if status == 200 else 3))
    asked = {"store": "bar", "from": first, "to": end, "grain": "1d"}

    answer = ask("/v1/metrics/occupancy_residue", **asked, tz=zone)

    assert answer.status_code == status
    assert (status == 200) != ("tz=store" in answer.text)
