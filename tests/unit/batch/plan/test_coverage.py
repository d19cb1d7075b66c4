"""What a generation may claim of a day."""

from datetime import UTC, date, datetime, timedelta

import pytest

from batch_layer.views.compute.scope import (
    Claim,
    Coverage,
)
from runtime.records.gaps import AcceptedGap
from tally.time.windows import LAST_INSTANT, day_end, day_start

ARRIVAL = datetime(2026, 11, 20, 10, 7, tzinfo=UTC)
NOW = datetime(2026, 11, 22, 9, 31, tzinfo=UTC)
FIRST, TODAY = ARRIVAL.date(), NOW.date()
TOLERANCE = timedelta(seconds=300)


def coverage(
    first_arrival: datetime | None = ARRIVAL,
    backfills: tuple[tuple[date, date], ...] = (),
    gaps: tuple[AcceptedGap, ...] = (),
) -> Coverage:
    return Coverage(
        {0: NOW, 1: NOW - timedelta(hours=1)}, first_arrival, TOLERANCE, backfills, gaps
    )


def lost_records(topic: str, first: datetime, last: datetime) -> AcceptedGap:
    return AcceptedGap(topic, 0, 5, 9, first, last, last, "the test")


def at(day: date, hour: int, minute: int = 0) -> datetime:
    return datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)


def test_days_from_the_first_arrival_to_today_are_claimed_with_records_or_without() -> None:
    assert coverage().days() == {FIRST, date(2026, 11, 21), TODAY}


def test_windows_are_covered_up_to_the_slowest_partition() -> None:
    claim = coverage().claim(TODAY)

    assert (claim.covered_from, claim.covered_until) == (at(TODAY, 0), at(TODAY, 8, 30))


def test_first_day_is_covered_from_the_first_whole_window_after_the_first_arrival() -> None:
    assert coverage().claim(FIRST).covered_from == at(FIRST, 10, 15)
    assert coverage(at(FIRST, 10, 15)).claim(FIRST).covered_from == at(FIRST, 10, 15)
    assert coverage(at(FIRST, 23, 59)).claim(FIRST).covered_from == day_end(FIRST)


@pytest.mark.parametrize(
    "day", [date(1, 1, 1), date(2000, 1, 1), date(2026, 2, 1), FIRST - timedelta(days=1)]
)
def test_of_a_day_before_the_first_arrival_nothing_is_claimed(day: date) -> None:
    claim, whole = coverage().claim(day), coverage()

    assert (claim.covered_from, claim.covered_until, whole.limit(day)) == (
        day_start(day),
        day_start(day),
        day_start(day),
    )
    assert day not in whole.days()


def test_declared_backfill_is_claimed_whole() -> None:
    declared = coverage(backfills=((date(2017, 1, 1), date(2018, 1, 1)),))

    claim = declared.claim(date(2017, 3, 5))

    assert (claim.covered_from, min(claim.covered_until, day_end(date(2017, 3, 5)))) == (
        at(date(2017, 3, 5), 0),
        at(date(2017, 3, 6), 0),
    )
    assert len(declared.days()) == 366 + 3 and declared.limit(date(2017, 3, 5)) == LAST_INSTANT


def test_family_without_records_claims_only_what_is_declared() -> None:
    assert coverage(None).days() == set()
    assert coverage(None, ((FIRST, FIRST),)).days() == {FIRST}


def test_clock_of_decades_ago_does_not_make_more_days_than_one_flip_can_publish() -> None:
    assert len(coverage(datetime(1900, 1, 1, tzinfo=UTC)).days()) == 10_000
    assert date.max in coverage(backfills=((date.min, date.max),)).days()


def test_gap_in_raw_records_bounds_all_days_that_its_records_may_have_been_of() -> None:
    lost = lost_records("posTransactionTopic", at(FIRST, 12, 10), at(FIRST, 18))
    bounded = coverage(gaps=(lost,))

    assert bounded.claim(FIRST) == Claim(
        at(FIRST, 10, 15), at(FIRST, 12), {0: at(FIRST, 12, 10), 1: at(FIRST, 12, 10)}
    )
    assert bounded.limit(FIRST) == at(FIRST, 12)
    assert bounded.claim(TODAY) == coverage().claim(TODAY)


@pytest.mark.parametrize(
    ("last", "is_bounded"),
    [(timedelta(), True), (timedelta(seconds=-300), False), (timedelta(seconds=-299), True)],
)
def test_gap_concerns_days_that_begin_before_its_end_and_the_tolerance(
    last: timedelta, is_bounded: bool
) -> None:
    gap = lost_records("posTransactionTopic", at(FIRST, 12), day_start(TODAY) + last)

    assert (coverage(gaps=(gap,)).limit(TODAY) != LAST_INSTANT) is is_bounded


def test_gap_in_canonical_records_holds_back_its_partition() -> None:
    claim = coverage(gaps=(lost_records("sales", at(FIRST, 12), at(FIRST, 13)),)).claim(FIRST)

    assert claim.through == {
        0: at(FIRST, 12),
        1: NOW - timedelta(hours=1),
    } and claim.covered_until == at(FIRST, 12)
