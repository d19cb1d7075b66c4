"""Marks of alerts above a chart: where they are, what form they have, what they tell."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec import structs

from alerting.queries.alerts import (
    MAX_DAYS_LATE,
    AlertQueryService,
    ListedAlert,
    to_listed,
)
from serving.questions.stores import Store
from tally.alerts.message import Alert
from tally.time.day_clock import DayClock
from tally.time.windows import TimeRange
from tests.support.alerts.alerts import end_of, told
from tests.support.serving.serving_world import MemoryViews, World
from web.dashboard.alerts import marks as alert_marks
from web.dashboard.alerts.marks import (
    add_marks,
    describe_marks,
    mark_links,
    place_marks,
    place_of_day,
)
from web.dashboard.shared.addresses import Period
from web.dashboard.shared.source import StoreChoice

LATER = timedelta(days=1)
ROME = StoreChoice(
    Store("367", "Rome", DayClock.from_zone(ZoneInfo("Europe/Rome")), "EUR"), date(2026, 11, 24)
)
WEEK = Period(date(2026, 11, 24), 7)
PLAIN: dict[str, Any] = {"grid": {"top": 60}, "yAxis": {}, "series": [{"type": "bar"}]}


def one(number: int = 1, **more: Any) -> ListedAlert:
    return to_listed(told(number, **more), True)


def raised(text: str, number: int = 1, **more: Any) -> ListedAlert:
    """Of the window just before the instant."""
    return one(number, raised=datetime.fromisoformat(text).replace(tzinfo=UTC), **more)


def points(*alerts: ListedAlert) -> list[dict[str, Any]]:
    marks = place_marks(alerts, place_of_day(WEEK, ROME))
    found: list[dict[str, Any]] = add_marks(PLAIN, marks, ROME)["series"][-1]["markPoint"]["data"]
    return found


def test_a_mark_lies_over_the_local_day_of_its_window() -> None:
    # 22:30 and 23:00 (UTC) of the 20th are of two days in Rome.
    marks = place_marks(
        [raised("2026-11-20T22:50"), raised("2026-11-20T23:20")], place_of_day(WEEK, ROME)
    )

    assert [mark.place for mark in marks] == [2, 3]


def test_what_lies_in_no_day_of_the_chart_has_no_mark() -> None:
    assert points(raised("2026-11-17T10:00"), raised("2026-11-24T10:00"))[0]["coord"] == [6, 0]
    assert place_marks([raised("2026-11-17T10:00")], place_of_day(WEEK, ROME)) == []


def test_without_marks_a_chart_stays_as_it_is() -> None:
    assert add_marks(PLAIN, [], ROME) is PLAIN


def test_several_of_one_day_stand_above_each_other_and_the_rest_is_a_number() -> None:
    alerts = [raised("2026-11-20T10:00", number) for number in range(1, 6)]
    marks = place_marks(alerts, place_of_day(WEEK, ROME))

    assert [(mark.place, mark.row, mark.more) for mark in marks] == [
        (2, 0, 0),
        (2, 1, 0),
        (2, 2, 3),
    ]
    shown = points(*alerts)
    assert [point["y"] for point in shown] == sorted((point["y"] for point in shown), reverse=True)
    assert shown[2]["label"]["formatter"] == "+3"
    assert add_marks(PLAIN, marks, ROME)["grid"]["top"] > shown[0]["y"] > shown[2]["y"] > 60
    assert describe_marks(marks) == ", 5 alerts marked"
    *lives, inbox = mark_links(marks, ROME)
    assert all(link.startswith("/alerts/") for link in lives)
    assert inbox.startswith("/alerts?store=367&days=7&until=2026-11-20")


@pytest.mark.parametrize("severity", ["info", "warning", "critical", "<i>"])
@pytest.mark.parametrize("state", ["provisional", "confirmed", "retracted"])
def test_states_differ_by_form_and_severities_by_colour(state: Any, severity: str) -> None:
    [point] = points(raised("2026-11-20T10:00", state=state, severity=severity))

    colour = alert_marks.SEVERITY_COLOURS.get(severity, "#5b6673")
    style = point["itemStyle"]
    form = {
        "provisional": ("triangle", "#ffffff", colour),
        "confirmed": ("triangle", colour, colour),
        "retracted": (point["symbol"], "transparent", "#9AA3AE"),
    }[state]
    assert (point["symbol"], style["color"], style["borderColor"]) == form
    assert point["symbol"].startswith("path://") == (state == "retracted")
    assert ("<s>" in point["tooltip"]["formatter"]) == (state == "retracted")


def test_an_end_points_downward() -> None:
    end = to_listed(end_of(told()), False)

    assert [point["symbolRotate"] for point in points(end, one())] == [0, 180]


def test_what_stands_and_is_grave_is_never_hidden_behind_a_number() -> None:
    day = "2026-11-20T10:00"
    alerts = [
        *(raised(day, number, state="retracted") for number in range(4)),
        raised(day, 7, severity="info"),
        raised(day, 8, severity="critical"),
    ]

    shown = place_marks(alerts, place_of_day(WEEK, ROME))
    assert [mark.alert.severity for mark in shown[:2]] == ["critical", "info"]
    assert shown[2].more == 4


def test_tooltip_tells_title_value_and_threshold_and_no_markup_of_others() -> None:
    hostile = raised("2026-11-20T10:16", rule_id="<img src=x onerror=alert(1)>", value=8.5)
    [point] = points(hostile)

    text = point["tooltip"]["formatter"]
    assert "<img" not in text and "&lt;img" in text
    assert "8.5 receipts · limit 6 receipts" in text
    # By the clock of the store.
    assert "20 Nov 2026 11:00 to 11:15" in text
    assert point["tooltip"]["trigger"] == "item"


def test_an_erased_number_is_told_by_no_mark() -> None:
    [point] = points(raised("2026-11-20T10:16", state="retracted", reason="erasure", value=None))

    assert "limit" not in point["tooltip"]["formatter"]


def asked(alerts: list[Alert], first: str, last: str, now: str) -> list[ListedAlert]:
    """What the inquiry finds of windows of UTC days."""
    views = MemoryViews(World())
    views.alerts.told = alerts
    start, end = (datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (first, last))
    span = TimeRange(start, end + timedelta(days=1))
    at = datetime.fromisoformat(now).replace(tzinfo=UTC)
    return asyncio.run(AlertQueryService(views, LATER).read_windows("367", span, at))


def test_alerts_are_found_by_their_windows_however_late_they_were_raised() -> None:
    window = told(1).window
    late = structs.replace(told(1), raised_at="2026-12-20T07:00:00Z", late=True)
    other = told(2, raised=datetime(2026, 11, 24, 0, 5, tzinfo=UTC))
    beside = told(3, "406")

    found = asked([late, other, beside], "2026-11-23", "2026-11-23", "2026-12-21")

    # The second is of a window of the 23rd too, and was raised a day after.
    assert [alert.alert_id for alert in found] == [late.alert_id, other.alert_id]
    assert (found[0].window, found[0].open) == (window, True)


@pytest.mark.parametrize(("days", "count"), [(MAX_DAYS_LATE, 1), (MAX_DAYS_LATE + 2, 0)])
def test_so_many_days_behind_the_span_are_looked_at(days: int, count: int) -> None:
    raised_at = datetime(2026, 11, 23, 12, tzinfo=UTC) + timedelta(days=days)
    late = structs.replace(told(1), raised_at=raised_at.isoformat().replace("+00:00", "Z"))

    assert len(asked([late], "2026-11-23", "2026-11-23", "2027-06-01")) == count


def test_days_of_2017_are_not_read_up_to_now() -> None:
    views = MemoryViews(World())
    days: list[date] = []

    async def counted(_ids: object, day: date) -> list[Alert]:
        days.append(day)
        return []

    views.alerts.read_raised = counted  # type: ignore[assignment, method-assign]
    start = datetime(2017, 9, 1, tzinfo=UTC)
    span = TimeRange(start, start + timedelta(days=28))
    now = datetime(2026, 11, 26, tzinfo=UTC)
    asyncio.run(AlertQueryService(views, LATER).read_windows("367", span, now))

    assert len(days) == 28 + MAX_DAYS_LATE + 1
