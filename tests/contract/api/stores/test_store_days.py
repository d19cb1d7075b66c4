"""One meaning of a day: of a bar that opens from 18:00 to 02:00 and begins its days at 04:00, over
both nights in which clocks change."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from alerting.evaluate.scope.calendar import StoreCalendarDays
from runtime.registry.sources import SALES
from serving.questions.grains import Resets
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

ZONE = ZoneInfo("Europe/Bratislava")
STORES = """
bar:
  tz: Europe/Bratislava
  currency: EUR
  day_starts: "04:00"
  opening_hours: {mon-sun: "18:00-02:00"}
"""
# The Saturday of each weekend, and how long its day is.
SPRING, AUTUMN = date(2026, 3, 28), date(2026, 10, 24)
LENGTHS = {SPRING: 23, AUTUMN: 25}


def utc(day: date, clock: str) -> datetime:
    return datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=ZONE).astimezone(UTC)


def receipts(day: date) -> dict[datetime, int]:
    """Cents by window: of the evening before, of the day's own evening, and after its midnight."""
    after = day + timedelta(days=1)
    return {
        utc(day, "01:30"): 1_000,
        utc(day, "19:00"): 200,
        utc(after, "01:15"): 30,
        utc(after, "20:00"): 4,
    }


@pytest.fixture(params=[SPRING, AUTUMN], ids=["spring", "autumn"])
def day(request: pytest.FixtureRequest) -> date:
    found: date = request.param
    return found


@pytest.fixture
def world(day: date) -> World:
    world = World(
        [
            sale("bar", start.strftime("%Y-%m-%dT%H:%M"), 1, cents, generation=7, currency="EUR")
            for start, cents in receipts(day).items()
        ]
    )
    days = [day + timedelta(days=more) for more in range(-8, 3)]
    world.pointers = [(SALES, flip(str(one), 7, "2026-11-22T12:00", pin=100)) for one in days]
    world.activity = [(SALES, Activity("bar", days[0], days[-1]))]
    return world


@pytest.fixture
def ask(tmp_path: Path, world: World) -> Iterator[Ask]:
    file = tmp_path / "stores.yaml"
    file.write_text(STORES, "utf-8")
    with asking(create_app(Settings(stores_file=file), MemoryViews(world))) as function:
        yield function


def rows(ask: Ask, day: date, **more: str) -> list[dict[str, Any]]:
    span = {"store": "bar", "from": str(day), "to": str(day + timedelta(days=1)), "tz": "store"}
    answer = ask("/v1/metrics/revenue", **{**span, "grain": "1d", **more})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["rows"]
    return found


def test_day_of_a_store_is_its_evening_and_the_night_after_it(ask: Ask, day: date) -> None:
    (row,) = rows(ask, day)

    begin, end = (datetime.fromisoformat(row[name]) for name in ("start", "end"))
    assert (begin, end) == (utc(day, "04:00"), utc(day + timedelta(days=1), "04:00"))
    assert end - begin == timedelta(hours=LENGTHS[day])
    assert row["value"] == 230


def test_calendar_report_and_hours_agree_on_it(ask: Ask, day: date) -> None:
    (row,) = rows(ask, day)
    after = str(day + timedelta(days=1))

    (listed,) = ask("/v1/stores/bar/calendar", **{"from": str(day), "to": after}).json()["days"]
    report = ask("/v1/reports/sales", store="bar", **{"from": str(day), "to": after}).json()

    assert (listed["start"], listed["end"]) == (row["start"], row["end"])
    assert (report["from"], report["to"], report["value"]) == (row["start"], row["end"], 230)
    assert [one["value"] for one in report["series"]] == [230]
    assert sum(one["value"] for one in rows(ask, day, grain="1h")) == 230
    # The day before is the one whose night was this morning's.
    assert report["previous"]["to"] == row["start"]
    assert report["previous"]["value"] == 1_000


def test_level_alert_and_page_have_the_same_day(
    ask: Ask, day: date, tmp_path: Path, world: World
) -> None:
    (row,) = rows(ask, day)
    span = tuple(datetime.fromisoformat(row[name]) for name in ("start", "end"))
    settings = Settings(stores_file=tmp_path / "stores.yaml")
    store = StoreRegistry.load(settings).store("bar")

    # Who is inside is counted from the day's begin on.
    assert Resets(store.clock).day_on(day) == span
    assert {one.start for one in quarter_hours(store, day).slots} == {*quarters(*span)}
    # An alert of each of its windows is of that day.
    of_alerts = StoreCalendarDays(store)
    found = {of_alerts.day(to_millis(one)) for one in quarters(*span)}
    assert found == {(to_millis(span[0]), to_millis(span[1]))}
    # The page shows its takings on it, and its alerts.
    period = Period(day, 7)
    assert period.span(store.clock).end == span[1]
    assert {store.clock.day(one) for one in quarters(*span)} == {day}
    source = FigureSource(settings, MemoryViews(world))
    last = asyncio.run(source.figures(store, period)).days[-1]
    assert (last.day, last.batch) == (day, 230)


def quarters(start: datetime, end: datetime) -> Iterator[datetime]:
    while start < end:
        yield start
        start += timedelta(minutes=15)


def test_in_another_zone_a_day_is_from_midnight_to_midnight(ask: Ask, day: date) -> None:
    (row,) = rows(ask, day, tz="Europe/Bratislava")

    assert datetime.fromisoformat(row["start"]) == utc(day, "00:00")
    assert row["value"] == 1_200


def test_instant_off_the_stores_days_names_the_nearest(ask: Ask, day: date) -> None:
    midnight = utc(day, "00:00").isoformat().replace("+00:00", "Z")
    span = {"from": midnight, "to": str(day + timedelta(days=1)), "grain": "1d", "tz": "store"}

    problem = ask("/v1/metrics/revenue", store="bar", **span)

    assert problem.status_code == 422
    assert "T04:00" in problem.json()["detail"]


def test_week_of_a_store_begins_on_monday_at_its_hour(ask: Ask, day: date) -> None:
    monday = day - timedelta(days=day.weekday())
    (row,) = rows(ask, monday, grain="1w", to=str(monday + timedelta(days=7)))

    # Sunday's evening is within, and so is the night after it.
    assert datetime.fromisoformat(row["start"]) == utc(monday, "04:00")
    assert row["value"] == 1_234
