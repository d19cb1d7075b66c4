"""Intervals across quarter hours: whole persons, and none more or less than were counted."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.installation.arrival import Sensor
from ingest.normaliser.normalise import Normaliser
from ingest.sources.traffic.contract import CanonicalInterval, shares
from runtime.processor.step import Input
from runtime.registry.store_fields import SensorEntry
from tally.algebra.parts import KeyedSum
from tally.errors import RejectedEvent
from tally.time.instants import format_utc, parse_instant
from tally.time.windows import WINDOW, window_start
from tests.unit.ingest.messages import ARRIVED, RULES, TRAFFIC, encoded, interval, without

COUNTS = ("entries", "exits", "passers_by", "entries_with_passers", "groups_in")


def cut(**changes: Any) -> list[CanonicalInterval]:
    return [*shares(interval({**TRAFFIC, **changes}))]


def starts(of: list[CanonicalInterval]) -> list[str]:
    return [one.happened_at[11:19] for one in of]


def test_interval_within_a_quarter_hour_is_one_record_as_before() -> None:
    (one,) = cut(interval_seconds=900)

    assert one == interval({**TRAFFIC, "interval_seconds": 900})
    assert one.event_id == "traffic:367:door-1:2017-09-19T22:45:00.000Z"
    assert (one.continued, one.continues) == (0, 0)


def test_counter_that_is_seven_seconds_late_brings_its_persons_where_most_of_them_were() -> None:
    before, after = cut(happened_at="2017-09-19T22:45:07Z", interval_seconds=900, **{"in": 12})

    assert (before.entries, after.entries) == (12, 0)
    assert (before.interval_seconds, after.interval_seconds) == (893, 7)
    assert (before.continues, after.continued) == (1, 1)
    assert before.event_id.endswith("22:45:07.000Z") and after.event_id.endswith("07.000Z:1")


def test_hour_touches_four_quarter_hours_and_five_where_it_lies_across() -> None:
    assert starts(cut(happened_at="2017-09-19T22:00:00Z", interval_seconds=3600)) == [
        "22:00:00",
        "22:15:00",
        "22:30:00",
        "22:45:00",
    ]
    assert len(cut(happened_at="2017-09-19T21:50:00Z", interval_seconds=3600)) == 5


def test_nobody_across_a_border_is_no_mark() -> None:
    empty = {"in": 0, "out": 0, "passers_by": 0}

    assert [
        (one.continued, one.continues) for one in cut(happened_at="2017-09-19T22:59:30Z", **empty)
    ] == [(0, 0), (0, 0)]


def test_heartbeat_across_a_border_is_there_on_both_sides() -> None:
    bare = without(without(without(TRAFFIC, "in"), "out"), "passers_by")
    told = {**bare, "heartbeat": True, "happened_at": "2017-09-19T22:55:00Z"}
    both = shares(interval({**told, "interval_seconds": 600}))

    assert [one.observed_seconds & KeyedSum.MAX_AMOUNT for one in both] == [300, 300]


def test_a_revision_has_a_share_wherever_a_version_may_have_been() -> None:
    found = cut(happened_at="2017-09-19T22:05:00Z", interval_seconds=900, revision=2, **{"in": 9})

    assert [one.entries for one in found] == [6, 3, 0, 0, 0]
    assert [one.observed_seconds & KeyedSum.MAX_AMOUNT for one in found] == [600, 300, 0, 0, 0]
    assert [one.happened_at[11:16] for one in found] == [
        *("22:05", "22:15", "22:30", "22:45", "23:00")
    ]
    assert len({one.event_id for one in found}) == 5


@given(
    start=st.datetimes(datetime(2026, 1, 1), datetime(2026, 1, 3)),
    seconds=st.integers(1, 3600),
    counts=st.tuples(st.integers(0, 1_000_000), st.integers(0, 40), st.integers(0, 3)),
)
def test_shares_are_the_interval_each_within_its_window(
    start: datetime, seconds: int, counts: tuple[int, int, int]
) -> None:
    start = start.replace(tzinfo=UTC, microsecond=start.microsecond // 1000 * 1000)
    whole = CanonicalInterval(
        schema_version=1,
        event_id="e",
        store_id="1",
        happened_at=start.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        received_at="",
        fingerprint="f",
        raw_partition=0,
        raw_offset=0,
        device_id="d",
        interval_seconds=seconds,
        entries=counts[0],
        exits=counts[1],
        passers_by=counts[2],
        entries_with_passers=counts[0],
        groups_in=counts[1],
        observed_seconds=KeyedSum.encode(9, min(seconds, 900)),
    )

    found = [*shares(whole)]

    at = [parse_instant(one.happened_at, "") for one in found]
    ends = [*at[1:], start + timedelta(seconds=seconds)]
    assert at[0] == start
    assert all(window_start(later) == later for later in at[1:])
    assert all(end - window_start(begin) <= WINDOW for begin, end in zip(at, ends, strict=True))
    assert sum(one.interval_seconds for one in found) == seconds
    for name in COUNTS:
        told = [getattr(one, name) for one in found]
        assert sum(told) == getattr(whole, name) and min(told) >= 0
    assert len({one.event_id for one in found}) == len(found)
    assert {one.fingerprint for one in found} == {"f"}
    # A border is crossed for both who meet there.
    assert all(before.continues == after.continued for before, after in pairwise(found))
    assert (found[0].continued, found[-1].continues) == (0, 0)


DAY = 86_400


@given(
    minutes=st.integers(1, 60),
    offset=st.integers(0, 3599),
    came=st.lists(st.integers(0, 3 * DAY - 1), max_size=300),
)
def test_a_day_differs_from_the_truth_by_intervals_across_its_borders_alone(
    minutes: int, offset: int, came: list[int]
) -> None:
    """Of a counter of any length and any grid: `came` are the seconds at which somebody came in."""
    midnight, seconds = datetime(2017, 9, 10, tzinfo=UTC), 60 * minutes
    by_interval = Counter((second - offset) // seconds for second in came)
    by_day, across = Counter[int](), Counter[int]()
    for number, persons in by_interval.items():
        first = number * seconds + offset
        told = {"in": persons, "out": 0, "passers_by": 0, "interval_seconds": seconds}
        begins = midnight + timedelta(seconds=first)
        for one in cut(happened_at=begins.isoformat(), **told):
            passed = parse_instant(one.happened_at, "") - midnight
            by_day[passed.days] += one.entries
        if first // DAY != (first + seconds - 1) // DAY:
            # A border at the begin of a day is that of the day before, too.
            across[first // DAY] += persons
            across[first // DAY + 1] += persons

    truth = Counter(second // DAY for second in came)
    for day in range(-1, 4):
        assert abs(by_day[day] - truth[day]) <= across[day]
    assert by_day.total() == len(came)


def test_revision_is_a_version_of_each_of_its_shares() -> None:
    told = {"happened_at": "2017-09-19T22:55:00Z", "interval_seconds": 600}

    whole = "version:2:traffic:367:door-1:2017-09-19T22:55:00.000Z"
    assert [one.event_id for one in cut(**told, revision=2)] == [
        whole,
        *(f"{whole}:{number}" for number in range(1, 5)),
    ]
    assert cut(**told, revision=0) == cut(**told)


def test_an_hour_that_still_runs_is_refused_until_it_is_over() -> None:
    running = {**TRAFFIC, "happened_at": format_utc(ARRIVED - timedelta(minutes=30))}

    with pytest.raises(RejectedEvent, match="send it when it is over") as refused:
        interval({**running, "interval_seconds": 3600})
    assert (refused.value.reason, refused.value.field) == ("future_time", "/interval_seconds")
    # A clock may be fast by five minutes.
    assert interval({**running, "interval_seconds": 35 * 60}).interval_seconds == 2100


@pytest.mark.parametrize("seconds", [7, -7])
def test_listed_clock_is_set_right(seconds: int) -> None:
    entry = SensorEntry(device_id="door-1", clock_ahead_seconds=seconds)
    rules = replace(RULES, sensors={"s1": Sensor("367", None, "door-1", entry)})
    at = datetime(2017, 9, 19, 22, 45, tzinfo=UTC) + timedelta(seconds=seconds)

    told = interval({**TRAFFIC, "happened_at": at.isoformat(), "interval_seconds": 900}, rules)

    assert (told.happened_at, len(shares(told))) == ("2017-09-19T22:45:00.000Z", 1)


def test_normaliser_writes_all_shares_of_a_record_to_one_partition_and_marks_repeats() -> None:
    normaliser = Normaliser(RULES, 4, {"raw-traffic": "traffic"})
    body = encoded({**TRAFFIC, "happened_at": "2017-09-19T22:59:30Z"})

    def written(offset: int) -> list[tuple[int, dict[str, Any]]]:
        at = int(ARRIVED.timestamp() * 1000)
        outputs = normaliser.process(Input("raw-traffic", 0, offset, at, None, body))
        return [(one.partition, json.loads(one.value or b"")) for one in outputs]

    first, again = written(5), written(6)

    (partition, one), (other_partition, other) = first
    assert partition == other_partition
    assert (one["raw_offset"], other["raw_offset"]) == (5, 5)
    assert one["entries"] + other["entries"] == TRAFFIC["in"]
    assert [record.get("repeat", False) for _, record in (*first, *again)] == [
        *(False, False),
        *(True, True),
    ]
