"""Which days a rebuild computes."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from batch_layer.views.compute.scope import (
    Coverage,
    RebuildRequest,
    RebuildScope,
    all_days,
    build_store_request,
    days_between,
    dirty_days,
    newest,
)
from runtime.records.gaps import AcceptedGap
from tally.families.epochs import Epochs
from tally.families.generation import Generation
from tally.time.day_clock import DayClock
from tally.time.windows import day_start, parse_days

MONDAY, TUESDAY, WEDNESDAY = date(2017, 3, 6), date(2017, 3, 7), date(2017, 3, 8)
# Everything was read when Wednesday had just ended.
NOW = datetime(2017, 3, 9, tzinfo=UTC)
Claims = dict[date, Generation]


def coverage(
    now: datetime = NOW, first_arrival: datetime | None = None, gaps: tuple[AcceptedGap, ...] = ()
) -> Coverage:
    declared = [(MONDAY, WEDNESDAY)] if first_arrival is None else []
    return Coverage({0: now}, first_arrival, timedelta(seconds=300), declared, gaps)


def published(*days: date, pinned: int = 10, epoch: int = 1, by: Coverage | None = None) -> Claims:
    claims = {day: (by or coverage()).claim(day) for day in days}
    return {
        day: Generation(day, 1, epoch, one.covered_from, one.covered_until, 7, NOW, {0: pinned}, {})
        for day, one in claims.items()
    }


EPOCHS = Epochs(1)


def scope(until: dict[date, int], by: Coverage | None = None) -> RebuildScope:
    return RebuildScope(
        EPOCHS, by or coverage(), {day: {0: offset} for day, offset in until.items()}
    )


WEEK = (MONDAY, TUESDAY, WEDNESDAY)


def test_days_are_both_inclusive() -> None:
    assert parse_days("2017-03-06..2017-03-08") == (MONDAY, WEDNESDAY)
    assert days_between(MONDAY, WEDNESDAY) == [MONDAY, TUESDAY, WEDNESDAY]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2017-03-06",
        "2017-03-06..",
        "2017-03-06..tomorrow",
        "a..b..c",
        "2017-03-08..2017-03-06",
        "0001-01-01..2017-03-06",
    ],
)
def test_malformed_days_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--days"):
        parse_days(text)


def test_day_whose_records_are_all_within_the_pin_is_clean() -> None:
    assert dirty_days(scope({MONDAY: 10}), published(*WEEK)) == {}


def test_day_with_a_record_beyond_the_pin_is_dirty() -> None:
    assert dirty_days(scope({MONDAY: 10, TUESDAY: 11}), published(*WEEK)) == {TUESDAY: "records"}


def test_day_with_records_in_a_partition_that_was_not_pinned_is_dirty() -> None:
    assert dirty_days(
        RebuildScope(EPOCHS, coverage(), {MONDAY: {0: 10, 1: 1}}), published(*WEEK)
    ) == {MONDAY: "records"}


def test_day_never_built_is_dirty_also_when_nothing_happened_on_it() -> None:
    found = dirty_days(scope({MONDAY: 10, WEDNESDAY: 9}), published(MONDAY))

    assert found == dict.fromkeys((TUESDAY, WEDNESDAY), "never built")


def test_past_day_without_records_is_built_without_waiting_for_a_later_one() -> None:
    arrived = coverage(first_arrival=day_start(MONDAY))

    assert dirty_days(scope({MONDAY: 10}, arrived), published(MONDAY, by=arrived)) == dict.fromkeys(
        (TUESDAY, WEDNESDAY), "never built"
    )


def test_receipts_of_wrong_clocks_make_their_own_days_and_no_others_dirty_and_only_once() -> None:
    arrived = coverage(first_arrival=day_start(MONDAY))
    odd = [date(1, 1, 1), date(2000, 1, 1), date(2016, 6, 1), date(9999, 12, 31)]
    records = scope(dict.fromkeys([*odd, MONDAY], 10), arrived)

    assert dirty_days(records, {}) == dict.fromkeys([*odd, *WEEK], "never built")
    assert dirty_days(records, published(*odd, *WEEK, by=arrived)) == {}


def test_day_published_before_it_had_ended_is_dirty_once_more_is_covered() -> None:
    noon, one = (coverage(datetime(2017, 3, 6, hour, tzinfo=UTC)) for hour in (12, 13))

    assert dirty_days(scope({MONDAY: 10}, one), published(*WEEK, by=noon)) == {MONDAY: "coverage"}
    assert dirty_days(scope({MONDAY: 10}, noon), published(*WEEK, by=noon)) == {}


def test_day_that_claims_what_lies_before_the_first_arrival_is_dirty() -> None:
    arrived = coverage(first_arrival=day_start(TUESDAY) + timedelta(hours=1))

    assert dirty_days(scope({MONDAY: 10}, arrived), published(*WEEK)) == {
        MONDAY: "claims too much",
        TUESDAY: "coverage",
    }
    assert dirty_days(scope({MONDAY: 10}, arrived), published(*WEEK, by=arrived)) == {}


def test_day_declared_later_is_dirty_until_it_is_claimed() -> None:
    undeclared = coverage(first_arrival=NOW)

    assert dirty_days(scope({MONDAY: 10}), published(MONDAY, by=undeclared)) == {
        MONDAY: "coverage",
        TUESDAY: "never built",
        WEDNESDAY: "never built",
    }


def test_day_that_claims_what_a_gap_has_lost_is_dirty() -> None:
    nine, hour = day_start(TUESDAY) + timedelta(hours=9), timedelta(hours=1)
    lost = coverage(
        gaps=(
            AcceptedGap("posTransactionTopic", 0, 5, 9, nine, nine + hour, nine + hour, "the test"),
        )
    )

    assert dirty_days(scope({MONDAY: 10}, lost), published(*WEEK)) == {TUESDAY: "claims too much"}
    assert dirty_days(scope({MONDAY: 10}, lost), published(*WEEK, by=lost)) == {}


def test_day_of_an_earlier_definition_is_dirty() -> None:
    assert dirty_days(
        scope({MONDAY: 10}), published(MONDAY, epoch=0) | published(TUESDAY, WEDNESDAY)
    ) == {MONDAY: "definition"}


def test_empty_master_has_no_dirty_days() -> None:
    assert dirty_days(RebuildScope(EPOCHS, Coverage({0: NOW}, None, timedelta()), {}), {}) == {}


def test_of_more_days_than_one_flip_can_publish_the_newest_are_built_first() -> None:
    days = {date.fromordinal(number) for number in range(1, 10_003)}

    assert (
        newest(
            all_days(
                RebuildScope(
                    EPOCHS, Coverage({0: NOW}, None, timedelta()), {day: {} for day in days}
                ),
                {},
            )
        )
        == sorted(days)[2:]
    )


@pytest.mark.parametrize(
    ("zone", "first", "last"),
    [
        ("UTC", "2026-03-28", "2026-03-28"),
        # From 03:00 of one UTC day to 02:00 of the next.
        ("Europe/Bratislava", "2026-03-28", "2026-03-29"),
        ("Asia/Tokyo", "2026-03-27", "2026-03-28"),
    ],
)
def test_the_day_of_a_store_is_all_utc_days_that_it_touches(
    zone: str, first: str, last: str
) -> None:
    clock = DayClock.from_zone(ZoneInfo(zone), time(0 if zone == "UTC" else 4))
    day = date(2026, 3, 28)

    found = build_store_request(day, day, clock)

    assert found == RebuildRequest("days", date.fromisoformat(first), date.fromisoformat(last))
