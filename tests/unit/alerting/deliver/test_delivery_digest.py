"""The message that comes once a day: for each date that a store's clock shows, of all since."""

import json
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from msgspec import structs

from alerting.deliver.overviews import DigestSpan, digest_span
from alerting.deliver.state.controls import AlertChannel, decode_control
from alerting.deliver.state.records import MAX_BYTES
from tests.unit.alerting.deliver.deliveries import (
    HOUR,
    NOON,
    Town,
    alert,
    channel,
    end_of,
    engine_with,
    later,
    messages,
)

DIGESTED: dict[str, Any] = {"digest": "07:00", "max_age": 10**9}


def millis(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


def spans(zone: str, clock: time, first: str, hours: int) -> list[DigestSpan]:
    """The digests of ticks that come every hour."""
    begin = millis(first)
    found = [
        digest_span(clock, ZoneInfo(zone), begin + number * HOUR, begin + (number + 1) * HOUR)
        for number in range(hours)
    ]
    return [one for one in found if one is not None]


@pytest.mark.parametrize("clock", [time(0), time(2, 30), time(7), time(23, 59)])
@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Rome", "Pacific/Apia", "Australia/Lord_Howe", "America/Havana"]
)
def test_each_date_that_a_clock_shows_has_one_digest_of_all_since_the_last(
    zone: str, clock: time
) -> None:
    found = spans(zone, clock, "2011-01-01", 366 * 24)

    days = [one.day for one in found]
    missing = {date(2011, 12, 30)} if zone == "Pacific/Apia" else set()
    count = (days[-1] - days[0]).days + 1
    every = {days[0] + number * timedelta(days=1) for number in range(count)}
    assert len(days) == len(set(days))
    assert set(days) == every - missing
    assert [one.after for one in found[1:]] == [one.until for one in found[:-1]]


def test_after_days_without_ticks_one_digest_is_about_all_of_them() -> None:
    before, now = millis("2026-11-20T12:00"), millis("2026-11-26T12:00")

    found = digest_span(time(7), ZoneInfo("UTC"), before, now)

    assert found == DigestSpan(
        date(2026, 11, 26), millis("2026-11-20T07:00"), millis("2026-11-26T07:00")
    )


def test_a_digest_tells_what_was_decided_and_why_nothing_was_told() -> None:
    engine = engine_with(channel(least_severity="info", most_a_minute=1, **DIGESTED))
    engine.process_alert(alert(1))
    engine.process_alert(alert(2))
    engine.process_alert(end_of(alert(2), 3))
    assert not any(one.kind == "digest" for one in messages(later(engine, 17 * HOUR)))

    [digest] = [one for one in messages(later(engine, 2 * HOUR)) if one.kind == "digest"]

    data = json.loads(digest.body)["data"]
    assert (data["store_id"], data["date"]) == ("367", "2026-11-27")
    assert [(one["verdict"], one["why"]) for one in data["alerts"]] == [
        ("send", ""),
        ("suppressed", "storm"),
    ]
    assert [one["edge"] for one in data["alerts"]] == ["raise", "clear"]
    assert not any(one.kind == "digest" for one in messages(later(engine, 24 * HOUR)))


def test_each_store_has_its_own_and_a_long_one_is_cut() -> None:
    engine = engine_with(channel(**DIGESTED), town=Town(zone="UTC"))
    for number in range(1, 201):
        engine.process_alert(alert(number, store_id="1" if number % 20 else "2"))

    found = [one for one in messages(later(engine, 20 * HOUR)) if one.kind == "digest"]

    data = [json.loads(one.body)["data"] for one in found]
    assert [one["store_id"] for one in data] == ["1", "2"]
    assert [len(one["alerts"]) + one["more"] for one in data] == [190, 10]
    assert max(len(one.body.encode()) for one in found) <= MAX_BYTES


def test_a_digest_has_one_line_an_alert_the_most_severe_first_and_then_by_time() -> None:
    engine = engine_with(channel(most_a_minute=1_000, **DIGESTED))
    severities = ("info", "critical", "warning")
    for number in range(15):
        # Later ones have lower ids, so that neither order is that of the other.
        raised = alert(90 - number, at=NOON + number * 60_000, severity=severities[number % 3])
        for one in (raised, end_of(raised, 200 + number, at=NOON + number * 60_000)):
            engine.process_alert(one)
            engine.process_alert(structs.replace(one, state="confirmed"))

    [digest] = [one for one in messages(later(engine, 20 * HOUR)) if one.kind == "digest"]

    data = json.loads(digest.body)["data"]
    lines = [(one["severity"], one["raised_at"]) for one in data["alerts"]]
    by_severity = {"critical": 0, "warning": 1, "info": 2}
    assert (len(lines), data["more"]) == (15, 0)
    assert lines == sorted(lines, key=lambda line: (by_severity[line[0]], line[1]))
    assert {one["state"] for one in data["alerts"]} == {"confirmed"}


@pytest.mark.parametrize("given", ["7:00", "24:00", "07:60", "07:00:00", "noon"])
def test_a_time_that_is_none_is_no_digest(given: str) -> None:
    wrong: AlertChannel = channel(digest=given)
    with pytest.raises(msgspec.ValidationError):
        decode_control(msgspec.json.encode(wrong))
