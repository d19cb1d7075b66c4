"""Rules against what is usual, evaluated by an evaluator over rows in memory and simulated."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

import pytest
from msgspec import structs

from alerting.evaluate import step
from alerting.evaluate.snapshot import baseline_days
from alerting.rules.rule import AgainstBaseline, Rule
from runtime.registry.sources import SALES, TRAFFIC
from tally.alerts.message import Alert, AlertBaseline
from tally.errors import RetryLater, ViewsUnreachable
from tests.support.evaluation.baselines import ONE_DAY, fix, restated, serving, weeks_before
from tests.support.evaluation.evaluating import DAY, Watched, Watching, said, sold
from tests.support.evaluation.simulating import clocks, compared, served, simulated
from tests.support.serving.serving_world import sale

FEW = Rule(
    rule_id="few",
    kind="baseline",
    metric="transactions",
    condition=AgainstBaseline("same_weekday_4w", "<= -30 %"),
)
UNLIKE = replace(FEW, rule_id="unlike", condition=AgainstBaseline("hour_of_week", sigmas=3.0))
TEN: Mapping[str, int] = {"09:00": 10}
# Two nights before the day that is evaluated: its snapshot serves from the day between on.
NIGHT = "2026-11-22T00:40"
NUMBER = (date(2026, 11, 23) - date(1970, 1, 1)).days


def usually(
    watched: Watching,
    rule: Rule = FEW,
    weeks: Sequence[Mapping[str, int]] = (TEN,) * 5,
) -> tuple[Watched, list[date]]:
    """A store that is evaluated, its weeks before, and the snapshot of them."""
    store = watched(rule)
    days = weeks_before(store.world, store.store, DAY, weeks)
    fix(store.world, NIGHT)
    return store, days


def told_of(store: Watched, count: int) -> list[Alert]:
    """What is told of a quarter hour with so many receipts."""
    sold(store, "09:00", count)
    return store.tick(f"{DAY}T09:17")


def test_a_value_far_below_what_is_usual_is_told_with_it(watched: Watching) -> None:
    store, _ = usually(watched)

    [told] = told_of(store, 7)

    assert (told.state, told.window.start, told.value) == ("provisional", f"{DAY}T09:00:00Z", 7)
    assert (told.threshold, told.baseline) == (7.0, AlertBaseline(NUMBER, 10, 4))
    sold(store, "09:15", 0)
    assert store.tick(f"{DAY}T09:32") == []
    # Of a quarter hour in which nothing is usual nothing is said.
    sold(store, "09:30", 1)
    assert store.tick(f"{DAY}T09:47") == []


@pytest.mark.parametrize(("count", "is_told"), [(8, False), (7, True)])
def test_the_edge_is_told_and_a_receipt_more_is_not(
    watched: Watching, count: int, is_told: bool
) -> None:
    store, _ = usually(watched)

    assert bool(told_of(store, count)) == is_told


def test_either_direction_of_deviations(watched: Watching) -> None:
    # Ten in the morning in Rome, behind and before the night in which its clocks are set.
    hours = [9] * 4 + [8] * 5
    weeks = [
        {f"0{hour}:{minute:02d}": 10 + more * (-1) ** (minute // 15) for minute in (0, 15, 30, 45)}
        for hour, more in zip(hours, (1, 2, 0, 1, 2, 0, 1, 1, 5), strict=True)
    ]
    store, _ = usually(watched, UNLIKE, weeks)

    [told] = told_of(store, 30)

    assert told.baseline == AlertBaseline(NUMBER, 10, 8)
    # Of 32 quarter hours the squares away from 10 are 48 together.
    assert told.threshold == pytest.approx(10 + 3 * (48 / 31) ** 0.5, abs=1e-6)


def test_days_that_are_restated_change_nothing_that_a_snapshot_serves(watched: Watching) -> None:
    store, days = usually(watched)
    [raised] = told_of(store, 7)
    for one in days:
        store.world.rows += restated(store.store, one, {"09:00": 1}, generation=2)
        store.publish(serving(one, 2))
    sold(store, "09:00", 7, generation=3)
    served(store, until="09:15", generation=3)
    # One who has never evaluated it before, and reads all anew.
    store.begin_again()

    [confirmed] = store.tick(f"{DAY}T09:40")

    assert (confirmed.alert_id, confirmed.state) == (raised.alert_id, "confirmed")
    assert confirmed.baseline == raised.baseline
    found = simulated(store, "few", end=f"{DAY}T09:15")
    assert compared(store, "few", end=f"{DAY}T09:15") == (1, [], 0)
    assert [one.threshold for store in found.stores for one in store.episodes] == [7.0]


def test_the_next_snapshot_is_of_days_that_have_not_begun(watched: Watching) -> None:
    store, days = usually(watched)
    for one in days:
        store.world.rows += restated(store.store, one, {"09:00": 1}, generation=2)
        store.publish(serving(one, 2))
    # In the morning of the day itself, by what was restated meanwhile.
    later = fix(store.world, f"{DAY}T00:40")

    assert later.first_day == date.fromisoformat(DAY) + ONE_DAY
    [told] = told_of(store, 7)
    assert told.baseline == AlertBaseline(NUMBER, 10, 4)


def test_simulation_uses_the_same_snapshot_and_says_the_same(watched: Watching) -> None:
    store, _ = usually(watched)
    sold(store, "09:00", 7, generation=3)
    served(store, until="12:00", generation=3)

    page = simulated(store, "few")

    [one] = page.stores[0].episodes
    assert (clocks(page)[0][0], one.value, one.threshold) == ("09:00", 7, 7.0)
    draft = replace(FEW, condition=AgainstBaseline("same_weekday_4w", "<= -31 %"))
    assert clocks(simulated(store, "few", draft=draft)) == []
    # Before the first of them nothing is usual.
    store.world.snapshots.clear()
    assert clocks(simulated(store, "few")) == []


@pytest.mark.parametrize(
    "weeks",
    [
        # Younger than the weeks; closed on most of them; never open at that time.
        (TEN, TEN, TEN),
        (TEN, {}, {}, {}, TEN),
        ({"10:00": 10},) * 5,
    ],
)
def test_of_too_little_nothing_is_said(
    watched: Watching, weeks: Sequence[Mapping[str, int]]
) -> None:
    store, _ = usually(watched, weeks=weeks)

    assert told_of(store, 1) == []


def test_days_that_no_generation_covered_whole_are_left_out(watched: Watching) -> None:
    store = watched(FEW)
    days = weeks_before(store.world, store.store, DAY, [TEN] * 5)
    # Rome's day begins an hour before: of that one nothing is covered.
    gone = days[0] - ONE_DAY
    store.world.pointers = [one for one in store.world.pointers if one[1].day != gone]
    store.world.rows += restated(store.store, days[1], {"09:00": 99}, generation=2)
    store.publish(serving(days[1], 2, covered_until=f"{days[1]}T12:00"))
    fix(store.world, NIGHT)

    [told] = told_of(store, 7)

    assert told.baseline == AlertBaseline(NUMBER, 10, 2)


def test_rows_of_an_older_definition_are_not_what_is_usual(watched: Watching) -> None:
    store, _ = usually(watched)
    [made] = store.world.snapshots
    older = [structs.replace(one, epoch=SALES.epoch - 1) for one in made.days["sales"]]
    store.world.snapshots[:] = [structs.replace(made, days={"sales": tuple(older)})]

    assert told_of(store, 1) == []


def test_clocks_that_were_set_meanwhile_are_those_that_count(begun: Watching) -> None:
    # Rome's clocks go back on 25 October: ten in the morning is an hour later in UTC.
    day = "2026-10-27"
    store = begun(FEW, since=f"{day}T08:00")
    store.sends("2026-08-01")
    store.tick(f"{day}T07:50")
    weeks_before(store.world, store.store, day, [{"08:00": 10, "09:00": 99}] * 5)
    fix(store.world, "2026-10-25T00:40")
    store.world.rows.append(sale(store.store, f"{day}T09:00", 7, 700))

    assert said(store.tick(f"{day}T09:17")) == [("raise", "provisional", "09:00")]


def test_a_share_of_which_one_side_was_never_covered_is_not_usual(watched: Watching) -> None:
    share = Rule(
        rule_id="share",
        kind="baseline",
        metric="conversion",
        condition=AgainstBaseline("same_weekday_4w", "<= -30 %"),
        minimum={"visitors_in": 1},
    )
    store = watched(share)
    store.sends("2026-11-20", TRAFFIC)
    weeks_before(store.world, store.store, DAY, [TEN] * 5)
    fix(store.world, NIGHT)

    # Of people counters there is no generation: of no day both sides are known.
    assert told_of(store, 1) == []


def test_while_the_snapshots_cannot_be_read_nothing_is_evaluated(
    watched: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "_RETRY_SECONDS", 0.0)
    store, _ = usually(watched)
    sold(store, "09:00", 7)

    async def away(day: date) -> None:
        raise ViewsUnreachable("planted")

    with monkeypatch.context() as patched:
        patched.setattr(store.views.baselines, "snapshot_for", away)
        with pytest.raises(RetryLater):
            store.tick(f"{DAY}T09:17")
    store.begin_again()
    assert [one.value for one in store.tick(f"{DAY}T09:18")] == [7]


def test_what_was_read_of_a_day_is_kept_until_it_is_too_much(
    watched: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = usually(watched)
    told_of(store, 7)
    asked = len(store.views.baselines.asked)
    sold(store, "09:15", 5)
    store.tick(f"{DAY}T09:32")

    assert len(store.views.baselines.asked) == asked == 1
    monkeypatch.setattr(baseline_days, "_MAX_DAYS", 0)
    monkeypatch.setattr(baseline_days, "_CURRENT_MILLIS", -1)
    monkeypatch.setattr(baseline_days, "_MAX_SNAPSHOTS", 0)
    for time in ("09:47", "10:02", "10:17"):
        store.tick(f"{DAY}T{time}")
    assert len(store.views.baselines.asked) > asked
