"""The evaluator's parts: local days, opening hours, the order of rules, exact values."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from alerting.evaluate.scope.calendar import StoreCalendarDays, WindowSpan, windows_in_schedule
from alerting.evaluate.scope.rule_set import RuleSet
from alerting.evaluate.snapshot.window_facts import exact_value
from alerting.evaluate.verdicts.store_evaluator import json_number
from alerting.rules.rule import ClockHours, Rule, Threshold
from serving.cells.cells import Cell
from serving.questions.catalogue import metric
from serving.questions.stores import Store
from tally.alerts.tick import Tick, last_closed_end
from tally.algebra.merge import Axes, Parts
from tally.time.day_clock import DayClock
from tally.time.instants import to_millis
from tally.time.opening_hours import parse_opening_hours
from tally.time.windows import TimeRange
from tests.support.evaluation.evaluating import in_force
from tests.support.serving.serving_world import at

HOUR = 3_600_000
START = to_millis(at("2026-03-29T00:00"))
DAY_MILLIS = 24 * HOUR


def rome(**entry: Any) -> StoreCalendarDays:
    store = Store("367", "367", DayClock.from_zone(ZoneInfo("Europe/Rome")), "EUR")
    return StoreCalendarDays(replace(store, entry=replace(store.entry, **entry)))


@pytest.mark.parametrize(
    ("noon", "count"),
    [("2026-03-29T12:00", 92), ("2026-10-25T12:00", 100), ("2026-11-24T12:00", 96)],
)
def test_local_day_has_the_windows_of_its_clock(noon: str, count: int) -> None:
    day = rome().day(to_millis(at(noon)))

    assert len(day.windows) == count
    assert {rome().day(one) for one in day.windows} == {day}
    assert rome().day_starts(WindowSpan(day.start, day.end + 1)) == [day.start, day.end]


def local(days: StoreCalendarDays, windows: frozenset[int]) -> str:
    """By the clock from when to when the windows are, e.g. `Tue 08:00-12:00`."""
    found = []
    for one in sorted(windows):
        if one - HOUR // 4 not in windows:
            found.append(f"{clock(one, days.zone):%a %H:%M}")
        if one + HOUR // 4 not in windows:
            found[-1] += f"-{clock(one + HOUR // 4, days.zone):%H:%M}"
    return " ".join(found)


def clock(millis: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(millis / 1000, zone)


NIGHTLY = parse_opening_hours(
    {"mon-fri": ["08:00-12:00", "20:10-02:00"], "sat": "09:00-13:00", "sun": "closed"}
)


@pytest.mark.parametrize(
    ("noon", "expected"),
    [
        # A window counts if it starts inside: that of 20:00 does not.
        ("2026-11-24T12:00", "Tue 00:00-02:00 Tue 08:00-12:00 Tue 20:15-00:00"),
        ("2026-11-28T12:00", "Sat 00:00-02:00 Sat 09:00-13:00"),
        ("2026-11-29T12:00", ""),
    ],
)
def test_windows_within_opening_hours_start_while_the_store_is_open(
    noon: str, expected: str
) -> None:
    days = rome(opening_hours=NIGHTLY)
    rule = Rule(rule_id="busy", within="opening_hours")

    assert local(days, windows_in_schedule(rule, days, days.day(to_millis(at(noon))))) == expected


def test_hours_that_nobody_has_told_are_all_and_those_of_a_rule_go_by_the_store_s_clock() -> None:
    days = rome()
    day = days.day(to_millis(at("2026-11-24T12:00")))
    always, opening = (Rule(rule_id="busy", within=one) for one in ("always", "opening_hours"))
    own = Rule(rule_id="busy", within=(ClockHours("mon-tue", "22:00", "01:00"),))

    assert windows_in_schedule(always, days, day) == windows_in_schedule(opening, days, day)
    own_windows = local(days, windows_in_schedule(own, days, day))
    assert own_windows == "Tue 00:00-01:00 Tue 22:00-00:00"


def threshold(rule_id: str, **more: Any) -> Rule:
    of: dict[str, Any] = {"metric": "transactions", "condition": Threshold(">=", Decimal(1))}
    return Rule(rule_id=rule_id, **{**of, **more})


def test_rules_come_behind_those_that_they_wait_for_and_none_waits_in_a_circle() -> None:
    rules = [
        threshold("a", unless=("b",)),
        threshold("b", unless=("c",)),
        threshold("c"),
        threshold("gone", metric=None),
        threshold("of-items", subject="item"),
    ]
    book = RuleSet({one.rule_id: (in_force(one, "2026-11-24T08:00"),) for one in rules})
    rules[2] = threshold("c", unless=("a",))
    circle = RuleSet({one.rule_id: (in_force(one, "2026-11-24T08:00"),) for one in rules})

    assert [one.rule_id for one in book.rules] == ["c", "b", "a"]
    waits = {
        one.rule_id: [other.rule_id for other in circle.find_dependencies(one, one.unless)]
        for one in circle.rules
    }
    assert waits == {"a": [], "b": [], "c": ["a"]}
    assert book.families == ("sales",)


def test_window_is_closed_in_all_families_and_by_their_slowest() -> None:
    tick = Tick(through={"sales": START + HOUR + 60_000, "traffic": START + HOUR})

    assert last_closed_end(tick, ["sales"], 60_000) == START + HOUR
    assert last_closed_end(tick, ["sales"], 60_001) == START + HOUR - HOUR // 4
    assert last_closed_end(tick, ["sales", "traffic"], 60_000) == START + HOUR - HOUR // 4
    assert last_closed_end(tick, ["sales", "wifi"], 0) == 0


def test_value_is_exact_whatever_it_is_divided_by() -> None:
    slot = TimeRange(at("2026-03-29T00:00"), at("2026-03-29T00:15"))
    rows: dict[Axes, Parts] = {
        ("USD",): {"receipts": 3, "gross_minor": 100, "returns_minor": 0, "units_milli": 1}
    }
    cell = Cell(slot, events=3, known=1, windows=1, parts={"sales": rows}, sources={"speed"})

    assert exact_value(metric("units"), cell) == Fraction(1, 1000)
    assert exact_value(metric("average_basket"), cell) == Fraction(100, 3)
    assert exact_value(metric("average_basket"), Cell(slot, known=1, windows=1)) is None
    assert [json_number(one) for one in (Fraction(100, 3), Fraction(6, 3), 7)] == [33.333333, 2, 7]


def test_span_has_no_windows_where_two_have_nothing_in_common() -> None:
    one, other = WindowSpan(START, START + HOUR), WindowSpan(START + 2 * HOUR, START + 3 * HOUR)

    assert [*one.intersect(other).windows] == [*other.intersect(one).windows] == []
    assert one.intersect(WindowSpan(START + HOUR // 2, START + DAY_MILLIS)).windows == range(
        START + HOUR // 2, START + HOUR, HOUR // 4
    )
