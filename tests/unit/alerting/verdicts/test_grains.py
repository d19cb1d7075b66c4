"""What rules of hours, days and running totals say of the windows of a day."""

from dataclasses import replace
from decimal import Decimal

import pytest
from msgspec import structs

from alerting.rules.rule import ClockHours, FurtherCondition, Rule, RuleGrain, Threshold
from tally.config.settings import Settings
from tally.time.instants import from_millis, to_millis
from tests.support.alerts.store_evaluation import StoreEvaluation
from tests.support.evaluation.evaluating import DAY, in_force
from tests.support.serving.serving_world import Stored, World, at, counted, flip, sale

HOURLY = Rule(
    rule_id="busy-hour", metric="transactions", condition=Threshold(">=", Decimal(12)), grain="hour"
)


def verdicts(evaluation: StoreEvaluation, of: Rule, noon: str = f"{DAY}T10:00") -> dict[str, int]:
    """By the clock of UTC the windows that say something."""
    each = (one.verdict for one in evaluation.of_day(of, noon))
    return {f"{from_millis(one.window):%H:%M}": one.verdict for one in each if one.verdict}


def morning(*without: str, events: int = 4) -> World:
    """Receipts of the speed layer from 08:00 to 12:00, but for some quarter hours."""
    world = World()
    for quarter in range(32, 48):
        start = f"{quarter // 4:02}:{quarter % 4 * 15:02}"
        if start not in without:
            world.rows.append(sale("367", f"{DAY}T{start}", events, 100 * events))
    return world


def test_an_hour_with_a_quarter_hour_of_which_nothing_has_come_is_not_known() -> None:
    evaluation = StoreEvaluation(morning("09:30"), f"{DAY}T12:20")

    assert verdicts(evaluation, HOURLY) == {"08:45": 1, "10:45": 1, "11:45": 1}


def test_to_a_rule_of_silence_what_has_not_come_is_nothing() -> None:
    evaluation = StoreEvaluation(morning("09:15", "09:30"), f"{DAY}T11:20")
    insisting = replace(HOURLY, on_silence="raise")
    few = replace(insisting, condition=Threshold("<", Decimal(12)))

    assert verdicts(evaluation, insisting) == {
        "00:45": 1, "01:45": 1, "02:45": 1, "03:45": 1, "04:45": 1, "05:45": 1, "06:45": 1,
        "07:45": 1, "08:45": 1, "09:45": -1, "10:45": 1, "23:45": 1,
    }  # fmt: skip
    assert verdicts(evaluation, few)["09:45"] == 1


def test_what_a_generation_covers_without_events_is_nothing_and_known() -> None:
    world = morning("09:15", "09:30")
    world.rows = [Stored(one.family, "367", one.row, 1) for one in world.rows]
    for number, row in enumerate(world.rows):
        world.rows[number] = sale(
            "367", f"{row.row.window_start:%Y-%m-%dT%H:%M}", 4, 1, generation=1
        )
    world.pointers.append((world.rows[0].family, flip(DAY, 1, f"{DAY}T12:00", 0)))
    evaluation = StoreEvaluation(world, f"{DAY}T12:20")

    found = verdicts(evaluation, HOURLY)

    assert {clock: found[clock] for clock in ("07:45", "08:45", "09:45")} == {
        "07:45": -1,
        "08:45": 1,
        "09:45": -1,
    }


def test_a_window_that_is_hidden_or_of_another_definition_makes_its_hour_unknown() -> None:
    evaluation = StoreEvaluation(morning(), f"{DAY}T12:20")
    # From 10:15 on nobody knows whether the speed layer has read by this definition.
    evaluation.memory.tick = structs.replace(
        evaluation.memory.tick, through={"sales": to_millis(at(f"{DAY}T10:20"))}
    )

    assert verdicts(evaluation, HOURLY) == {"08:45": 1, "09:45": 1}


@pytest.mark.parametrize(
    ("grain", "within", "expected"),
    [
        ("hour", "09:30", {"10:45": 1}),
        ("hour", "09:00", {"09:45": 1, "10:45": 1}),
        ("since_opening", "09:30", None),
    ],
)
def test_an_hour_counts_that_lies_inside_of_within_whole(
    grain: RuleGrain, within: str, expected: dict[str, int] | None
) -> None:
    evaluation = StoreEvaluation(
        morning(), f"{DAY}T12:20", settings=Settings(default_timezone="UTC")
    )
    hours = (ClockHours("mon-sun", within, "11:00"),)
    of = replace(HOURLY, grain=grain, within=hours, on_silence="raise")

    found = verdicts(evaluation, of)

    each = "09:30 09:45 10:00 10:15 10:30 10:45".split()  # noqa: SIM905
    assert found == (expected or dict.fromkeys(each, 1))


@pytest.mark.parametrize(("days", "expected"), [("tue", {"23:45": 1}), ("wed", {})])
def test_a_day_counts_that_has_a_window_inside_of_within(
    days: str, expected: dict[str, int]
) -> None:
    evaluation = StoreEvaluation(
        morning(), "2026-11-25T12:00", settings=Settings(default_timezone="UTC")
    )
    hours = (ClockHours(days, "09:00", "11:00"),)
    daily = replace(HOURLY, grain="day", within=hours, on_silence="raise")

    assert verdicts(evaluation, daily) == expected


def test_further_conditions_are_of_the_same_total() -> None:
    world = morning()
    for quarter in range(32, 48):
        start = f"{DAY}T{quarter // 4:02}:{quarter % 4 * 15:02}"
        # Only from 10:00 on an hour has 40 visitors; no quarter hour has.
        visitors = 9 if quarter < 40 else 10
        world.rows.append(counted("367", start, visitors, visitors))
    evaluation = StoreEvaluation(world, f"{DAY}T12:20")
    crowd = replace(HOURLY, and_=(FurtherCondition("visitors_in", ">=", Decimal(40)),))

    assert verdicts(evaluation, crowd) == {"08:45": -1, "09:45": -1, "10:45": 1, "11:45": 1}


@pytest.mark.parametrize("border", ["10:00", "10:30", "10:45"])
def test_the_version_in_force_as_an_hour_ends_evaluates_all_of_it(border: str) -> None:
    evaluation = StoreEvaluation(morning(), f"{DAY}T12:20")
    more = replace(HOURLY, condition=Threshold(">=", Decimal(17)))
    versions = [in_force(HOURLY, "2026-11-01T00:00"), in_force(more, f"{DAY}T{border}", 2)]

    said_by = {
        f"{from_millis(one.verdict.window):%H:%M}": (one.verdict.verdict, one.verdict.version)
        for one in evaluation.of_day(versions, f"{DAY}T10:00")
        if one.verdict.verdict
    }

    assert said_by == {"08:45": (1, 1), "09:45": (1, 1), "10:45": (-1, 2), "11:45": (-1, 2)}


def test_a_rule_of_quarter_hours_that_becomes_one_of_the_day_evaluates_the_whole_day() -> None:
    evaluation = StoreEvaluation(
        morning(), "2026-11-25T12:00", settings=Settings(default_timezone="UTC")
    )
    quarters = replace(HOURLY, grain="quarter_hour", condition=Threshold(">=", Decimal(4)))
    daily = replace(HOURLY, grain="day", condition=Threshold(">=", Decimal(64)), on_silence="raise")
    versions = [in_force(quarters, "2026-11-01T00:00"), in_force(daily, f"{DAY}T09:00", 2)]

    found = evaluation.of_day(versions, f"{DAY}T10:00")

    told = {f"{from_millis(one.verdict.window):%H:%M}": one for one in found}
    assert {clock for clock, one in told.items() if one.verdict.verdict == 1} == {
        "08:00", "08:15", "08:30", "08:45", "23:45",
    }  # fmt: skip
    # All 16 quarter hours of the day, seven of them before the version.
    assert told["23:45"].cells is not None
    assert told["23:45"].cells.metric.cell.events == 64
