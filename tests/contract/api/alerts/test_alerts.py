"""Alerts over HTTP, over what was told in memory."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from alerting.queries import alerts
from tally.config.settings import Settings
from tests.support.alerts.alert_memory import MemoryFeed
from tests.support.alerts.alert_suite import DAY, STORY, AlertSuite, numbers
from tests.support.alerts.alerts import then, told
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_world import MemoryViews
from web.api import state
from web.api.alerts import stream
from web.api.app import create_app


@pytest.fixture
def views(views: MemoryViews) -> MemoryViews:
    views.alerts.told += STORY
    return views


class TestInMemory(AlertSuite):
    """The suite over messages in memory."""


def test_days_without_alerts_are_passed_a_bounded_number_at_a_time(
    ask: Ask, views: MemoryViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Three stores: two days of them a page.
    monkeypatch.setattr(alerts, "MAX_PARTITIONS", 6)
    page = ask("/v1/alerts", **{**DAY, "from": "2026-11-15", "to": "2026-12-01"}).json()
    found, pages = numbers(page), 1
    while page["next"]:
        page = ask(page["next"]).json()
        found, pages = found + numbers(page), pages + 1

    assert (sorted(found), pages) == ([1, 2, 2, 3, 4, 5, 6, 6], 8)


def test_an_alert_that_is_raised_between_two_pages_moves_none_of_them(
    ask: Ask, views: MemoryViews
) -> None:
    whole = ask("/v1/alerts", **DAY).json()["alerts"]
    first = ask("/v1/alerts", **DAY, limit="3").json()
    views.alerts.told.append(told(9))

    second = ask(first["next"]).json()

    assert first["alerts"] + second["alerts"] == whole[:6]


def test_what_no_generation_has_settled_in_two_hours_is_overdue_and_stays_provisional(
    ask: Ask, views: MemoryViews
) -> None:
    now = datetime.now(UTC)
    old, new = (told(number, raised=now - timedelta(hours=number)) for number in (3, 1))
    settled = then(told(4, raised=now - timedelta(hours=4)), "confirmed")
    views.alerts.told[:] = [old, new, settled]

    listed = ask("/v1/alerts", store="367", open="true").json()["alerts"]

    assert [(one["overdue"], one["state"]) for one in listed] == [
        (False, "provisional"),
        (True, "provisional"),
        (False, "confirmed"),
    ]
    life = ask(f"/v1/alerts/{old.alert_id}").json()
    assert (life["alert"]["overdue"], "overdue" in life["states"][0]) == (True, False)


def test_counters_have_what_is_open_and_what_of_it_is_overdue(
    ask: Ask, views: MemoryViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "OPEN_SECONDS", 0)
    now = datetime.now(UTC)
    views.alerts.told[:] = [told(1, raised=now)]
    fresh = ask("/metrics").text
    views.alerts.told += [told(2, "406", raised=now - timedelta(days=1))]
    views.alerts.told += [then(views.alerts.told[0], "confirmed")]
    later = ask("/metrics").text

    assert 'tally_alerts_open{state="provisional"} 1.0\n' in fresh
    assert 'tally_alerts_open{state="confirmed"} 0.0\n' in fresh
    assert "tally_alerts_overdue 0.0\n" in fresh
    assert 'tally_alerts_open{state="provisional"} 1.0\n' in later
    assert 'tally_alerts_open{state="confirmed"} 1.0\n' in later
    assert "tally_alerts_overdue 1.0\n" in later


def test_open_alerts_are_counted_once_however_often_they_are_scraped(
    ask: Ask, views: MemoryViews
) -> None:
    before = ask("/metrics").text
    views.alerts.told += [told(50)]

    assert _of_alerts(ask("/metrics").text) == _of_alerts(before) != []


def test_without_tables_counters_say_nothing_of_alerts_and_the_rest(
    ask: Ask, views: MemoryViews
) -> None:
    views.is_down = True
    ask("/v1/alerts", **DAY)
    text = ask("/metrics").text

    assert _of_alerts(text) == []
    assert 'tally_api_requests_total{route="/v1/alerts",status="503"} 1.0' in text


def _of_alerts(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("tally_alerts")]


def test_without_tables_there_is_no_answer(ask: Ask, views: MemoryViews) -> None:
    views.is_down = True

    asked = [ask("/v1/alerts", **DAY), ask(f"/v1/alerts/{STORY[0].alert_id}")]

    assert [one.status_code for one in asked] == [503, 503]


@pytest.mark.parametrize(
    ("asked", "named", "status"),
    [
        ({}, "no id", 422),
        ({"store": "nobody"}, "", 404),
        ({"store": ""}, "", 422),
        ({"colour": "red"}, "", 422),
    ],
)
def test_a_stream_that_cannot_be_is_refused(
    ask: Ask, asked: dict[str, Any], named: str, status: int
) -> None:
    answer = ask("/v1/alerts/stream", headers={"Last-Event-ID": named} if named else {}, **asked)

    assert (answer.status_code, answer.json()["status"]) == (status, status)


def test_streams_are_bounded(views: MemoryViews, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_STREAMS", 0)
    with asking(create_app(Settings(), views, MemoryFeed())) as ask:
        answer = ask("/v1/alerts/stream")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_a_stream_begins_where_the_topic_ends(views: MemoryViews) -> None:
    feed = MemoryFeed()
    feed.tell(0, STORY[0])
    feed.end()
    with asking(create_app(Settings(), views, feed)) as ask:
        answer = ask("/v1/alerts/stream")

    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = answer.text.split("\n\n")
    assert (lines[0], lines[1].startswith("id: "), lines[2:]) == ("retry: 3000", True, [""])
