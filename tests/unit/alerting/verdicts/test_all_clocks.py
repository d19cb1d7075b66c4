"""Quiet hours and daily messages in every time zone, around each time that its clock is set."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from alerting.deliver.overviews import digest_span
from alerting.deliver.state.clock_times import (
    QuietHours,
    parse_quiet_spans,
    quiet_until,
    start_instant,
)
from tests.support.twin.clocks import ClockChange, clock_changes

DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)
TIMES = (time(0), time(2, 30), time(7))
QUIET = parse_quiet_spans((QuietHours("mon-sun", "22:00", "06:00"),))
STARTS, ENDS = time(22), time(6)
# Two zones have left out a date, and so the end of a night that began before it.
LEFT_OUT = date(2011, 12, 30)
WITHOUT_IT = {"Pacific/Apia", "Pacific/Fakaofo"}


def each_change(*years: int) -> Iterator[tuple[str, ZoneInfo, ClockChange]]:
    """Of each zone each time that its clock is set, of some years alone."""
    for name, changes in clock_changes().items():
        for change in changes:
            if not years or change.instant.year in years:
                yield name, ZoneInfo(name), change


def shown(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None)


def is_shown_twice(instant: datetime, zone: ZoneInfo) -> bool:
    readings = (shown(instant, zone).replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    return len({one.astimezone(UTC) for one in readings}) == 2


def test_clocks_are_set_at_many_times_of_many_zones() -> None:
    changes = clock_changes()
    print(f"{len(changes)} zones that differ, {sum(map(len, changes.values()))} changes")

    assert len(changes) > 150 and sum(map(len, changes.values())) > 2_500
    # Of which the days, by an almanac, are known: the last Sundays of March and October.
    rome = next(of for name, of in changes.items() if is_like("Europe/Rome", name))
    found = [one.instant for one in rome if one.instant.year == 2026]
    assert found == [datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC)]


def is_like(name: str, other: str) -> bool:
    """Whether two zones have shown the same at each hour of some years."""
    hours = [datetime(2007, 1, 1, tzinfo=UTC) + number * HOUR for number in range(0, 180_000, 5)]
    zones = ZoneInfo(name), ZoneInfo(other)
    return all(shown(hour, zones[0]) == shown(hour, zones[1]) for hour in hours)


def test_around_each_change_each_date_has_one_instant_of_each_time() -> None:
    looked_at = 0
    for name, zone, change in each_change():
        days = [shown(change.instant, zone).date() + number * DAY for number in range(-2, 3)]
        for clock in TIMES:
            found = {day: start_instant(day, clock, zone) for day in days}
            missing = {day for day, instant in found.items() if instant is None}
            assert missing == {LEFT_OUT} & {*days} if name in WITHOUT_IT else not missing, name
            instants = [one for one in found.values() if one is not None]
            assert all(one < other for one, other in pairwise(instants)), (name, days, clock)
            for day, instant in found.items():
                if instant is None:
                    continue
                wanted = datetime.combine(day, clock)
                # It shows that time, or another one because the clock has just been set.
                assert shown(instant - SECOND, zone) < wanted <= shown(instant, zone), (name, day)
                looked_at += 1
    assert looked_at > 30_000


def test_around_each_change_each_date_that_is_shown_has_one_digest() -> None:
    digests = 0
    for name, zone, change in each_change(2011, 2026):
        first = change.instant.replace(minute=0, second=0) - 2 * DAY
        millis = [int((first + number * HOUR).timestamp() * 1000) for number in range(97)]
        for clock in TIMES:
            found = [digest_span(clock, zone, *span) for span in pairwise(millis)]
            told = [one for one in found if one is not None]
            days = [one.day for one in told]
            every = [days[0] + number * DAY for number in range((days[-1] - days[0]).days + 1)]
            assert days == [day for day in every if name not in WITHOUT_IT or day != LEFT_OUT], name
            assert all(one.until == other.after for one, other in pairwise(told)), (name, clock)
            digests += len(told)
    assert digests > 2_000


def test_around_each_change_it_is_quiet_while_the_clock_says_so() -> None:
    quiet = loud = 0
    for name, zone, change in each_change(2011, 2026):
        first = change.instant.replace(minute=0, second=0) - DAY
        for instant in (first + number * HOUR / 2 for number in range(96)):
            clock = shown(instant, zone)
            # Of a time that comes twice it hangs on what begins or ends in it.
            is_behind_the_gap = name in WITHOUT_IT and clock.date() == LEFT_OUT + DAY
            if is_shown_twice(instant, zone) or is_behind_the_gap:
                continue
            until = quiet_until(instant, QUIET, zone)
            assert (until is not None) == (clock.time() >= STARTS or clock.time() < ENDS), name
            quiet, loud = quiet + (until is not None), loud + (until is None)
            if until is not None and name not in WITHOUT_IT:
                assert shown(until - SECOND, zone).time() < ENDS <= shown(until, zone).time(), name
    assert quiet > 5_000 and loud > 10_000
