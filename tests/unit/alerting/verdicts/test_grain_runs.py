"""Rules of hours, days and running totals: their runs, and what an evaluator tells of them."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from alerting.episodes.fold import Episode, VerdictRange, fold, reduce_to_grain
from alerting.episodes.verdict import CLEARS, LEAVES, RAISES
from alerting.rules.rule import Rule, Threshold
from alerting.rules.rule_file import dump_rule_yaml, parse_rule_yaml
from tally.errors import BadRule
from tests.support.evaluation.evaluating import DAY, Watching, said, sold
from tests.support.evaluation.simulating import clocks, served, simulated
from tests.support.serving.serving_world import flip
from tests.unit.alerting.rules.rules import rule
from web.dashboard.rules.markup import condition_text

HOURLY = Rule(
    rule_id="busy-hour", metric="transactions", condition=Threshold(">=", Decimal(12)), grain="hour"
)


def hours_of(verdicts: bytes, wanted: int = 2, covered: int | None = None) -> VerdictRange:
    """A range of windows of which each fourth ends an hour."""
    count = len(verdicts) * 4
    each = b"".join(LEAVES * 3 + bytes([one]) for one in verdicts)
    return VerdictRange(0, each, 1, wanted, wanted, count if covered is None else covered)


ENDS = frozenset(range(3 * 900_000, 96 * 900_000, 4 * 900_000))


def test_for_and_clear_for_count_hours() -> None:
    hours = hours_of(RAISES + RAISES + LEAVES + CLEARS + RAISES + CLEARS + CLEARS)

    [episode] = fold(reduce_to_grain([(hours, ENDS)])).episodes

    hour = 4 * 900_000
    assert episode == Episode(hour - 900_000, 2 * hour - 900_000, 1, 7 * hour - 900_000)
    # Of all windows one by one no two in a row raise.
    assert fold([hours]).episodes == ()


@pytest.mark.parametrize("covered", range(29))
def test_covered_are_hours_that_are_whole_and_all_before_them(covered: int) -> None:
    hours = hours_of(RAISES * 7, 1, covered)

    found = reduce_to_grain([(hours, ENDS)])

    # As alerting/episodes/affected_days.py counts them: from the day's begin on, up to the first
    # hole.
    total = 0
    for one in found:
        total += one.covered_count
        if one.covered_count < len(one.verdicts):
            break
    assert total == (covered if covered == 28 else covered // 4 * 4)
    assert found[0].start == 0


def test_behind_a_hole_at_the_end_of_one_version_nothing_of_the_next_is_covered() -> None:
    first = VerdictRange(0, LEAVES * 6, 1, 1, 1, 5)
    second = VerdictRange(6 * 900_000, LEAVES + RAISES, 2, 1, 1, 2)

    found = reduce_to_grain([(first, ENDS), (second, ENDS)])

    assert sum(one.covered_count for one in found) == 4
    assert [one.verdicts for one in found if one.verdicts] == [LEAVES, RAISES]


def test_ranges_of_quarter_hours_are_folded_as_they_are() -> None:
    ranges = [VerdictRange(0, RAISES + LEAVES, 1), VerdictRange(1_800_000, CLEARS, 2)]

    found = reduce_to_grain((one, None) for one in ranges)

    assert all(one is other for one, other in zip(found, ranges, strict=True))


def test_an_hour_is_told_when_a_tick_closes_its_last_quarter_hour_and_confirmed(
    watched: Watching,
) -> None:
    store = watched(HOURLY)
    for time in ("09:00", "09:15", "09:30", "09:45"):
        sold(store, time, 4)
    assert store.tick(f"{DAY}T09:50") == []

    [raised] = store.tick(f"{DAY}T10:02")

    assert (raised.value, raised.threshold, raised.state) == (16, 12, "provisional")
    assert (raised.window.start, raised.episode.start) == (f"{DAY}T09:45:00Z", f"{DAY}T09:45:00Z")
    [rows] = raised.evidence.read
    assert (rows.family, rows.day, rows.events, rows.source) == ("sales", DAY, 16, "speed")

    for time in ("09:00", "09:15", "09:30", "09:45"):
        sold(store, time, 4, generation=1)
    store.publish(flip(DAY, 1, f"{DAY}T10:40", 0, covered_until=f"{DAY}T09:45"))
    assert store.tick(f"{DAY}T10:41") == []
    store.publish(flip(DAY, 2, f"{DAY}T10:50", 0, covered_until=f"{DAY}T10:00"))
    for time in ("09:00", "09:15", "09:30", "09:45"):
        sold(store, time, 4, generation=2)
    assert said(store.tick(f"{DAY}T10:51")) == [("raise", "confirmed", "09:45")]


def test_late_data_of_the_first_quarter_hour_takes_the_hour_back(watched: Watching) -> None:
    few = replace(HOURLY, condition=Threshold("<", Decimal(12)))
    store = watched(few)
    for time in ("09:00", "09:15", "09:30", "09:45"):
        sold(store, time, 2)
    [raised] = store.tick(f"{DAY}T10:02")
    assert said([raised]) == [("raise", "provisional", "09:45")]

    for time, events in (("09:00", 20), ("09:15", 2), ("09:30", 2), ("09:45", 2)):
        sold(store, time, events, generation=1)
    store.publish(flip(DAY, 1, f"{DAY}T10:40", 0, covered_until=f"{DAY}T10:00"))

    told = [one for one in store.tick(f"{DAY}T10:41") if one.alert_id == raised.alert_id]
    assert said(told) == [("raise", "retracted", "09:45")]


def test_two_hours_in_a_row_over_midnight_are_one_run(watched: Watching) -> None:
    store = watched(replace(HOURLY, for_=2))
    # Midnight of Rome is 23:00 UTC.
    for time in ("22:00", "22:15", "22:30", "22:45", "23:00", "23:15", "23:30", "23:45"):
        sold(store, time, 4)

    assert store.tick(f"{DAY}T23:02") == []
    assert store.tick(f"{DAY}T23:50") == []
    [raised] = store.tick("2026-11-25T00:02")

    assert (raised.window.start[11:16], raised.episode.start[11:16]) == ("23:45", "22:45")


def test_a_running_total_is_told_in_the_quarter_hour_that_reaches_it(watched: Watching) -> None:
    of = replace(
        HOURLY, grain="since_opening", condition=Threshold(">=", Decimal(10)), on_silence="raise"
    )
    eager = replace(of, rule_id="eager", evaluate="eager")
    store = watched(of, eager)
    for time in ("08:00", "08:15", "08:30"):
        sold(store, time, 4)

    assert store.tick(f"{DAY}T08:16") == store.tick(f"{DAY}T08:29") == []
    [early] = store.tick(f"{DAY}T08:32")
    [told] = store.tick(f"{DAY}T08:47")

    assert [one.rule_id for one in (early, told)] == ["eager", "busy-hour"]
    assert {(one.window.start, one.value) for one in (early, told)} == {(f"{DAY}T08:30:00Z", 12)}


def test_an_hour_in_which_another_rule_is_open_is_left_as_it_is(watched: Watching) -> None:
    silent = Rule(rule_id="silent", kind="silence", family="sales", on_silence="raise")
    few = replace(
        HOURLY,
        condition=Threshold("<", Decimal(12)),
        on_silence="raise",
        unless=("silent",),
    )
    plain = replace(few, rule_id="plain", unless=())
    store = watched(silent, few, plain)
    for time in ("08:00", "08:15", "08:30", "08:45", "09:30", "09:45", "10:00", "10:15"):
        sold(store, time, 4 if time < "09" else 1)

    told = [one for hour in ("09", "10", "11") for one in store.tick(f"{DAY}T{hour}:02")]

    found = {(one.rule_id, one.edge, one.window.start[11:16]) for one in told}
    assert ("plain", "raise", "09:45") in found
    assert [one for one in found if one[0] == HOURLY.rule_id] == []


def test_a_simulation_says_what_was_told(watched: Watching) -> None:
    store = watched(replace(HOURLY, for_=2))
    for hour in ("08", "09", "10", "11"):
        for quarter in ("00", "15", "30", "45"):
            sold(store, f"{hour}:{quarter}", 4 if hour < "10" else 1, generation=1)
    served(store, until="12:00")

    page = simulated(store, rule_id=HOURLY.rule_id)

    assert clocks(page) == [("08:45", "10:45", True)]
    assert page.stores[0].episodes[0].value == 16


@pytest.mark.parametrize(
    ("kind", "changed", "problem"),
    [
        ("threshold", {"grain": "week"}, "grain: 'week' does not fit; wanted: quarter_hour, hour,"),
        ("silence", {"grain": "hour"}, "grain: a silence rule waits for quarter hours"),
        ("baseline", {"grain": "hour"}, "grain: what is usual is known of quarter hours alone"),
        ("stock", {"grain": "day"}, "grain: stock is judged of quarter hours alone"),
        (
            "threshold",
            {"grain": "hour", "metric": "inside"},
            "grain: inside is a level, of which there is no total",
        ),
        (
            "threshold",
            {"grain": "day", "and_": [{"metric": "inside", "op": ">", "value": "1"}]},
            "grain: inside is a level, of which there is no total",
        ),
        (
            "threshold",
            {"grain": "hour", "evaluate": "eager"},
            "evaluate: a total of one hour is judged once it is over",
        ),
    ],
)
def test_what_does_not_fit_is_told(kind: str, changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadRule) as raised:
        rule(kind, **changed)

    assert any(problem in one for one in raised.value.problems), raised.value.problems


def test_a_grain_is_read_written_and_shown() -> None:
    text = dump_rule_yaml(HOURLY)

    assert "grain: hour" in text
    assert parse_rule_yaml(text) == HOURLY
    assert rule("threshold", grain="since_opening", evaluate="eager", clear=None).grain
    assert condition_text(HOURLY) == "transactions >= 12 in an hour"
