"""A simulated rule against what an evaluator has told, over rows in memory."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from msgspec import structs

from alerting.alert.ids import Chain
from alerting.alert.published import PublishedAlert
from alerting.episodes.fold import Episode
from alerting.evaluate.verdicts.verdicts import WHOLE_STORE
from alerting.rules.rule import Threshold
from alerting.simulate.comparison import AlertDifference, ComparisonSpan, compare_alerts
from tally.time.windows import WINDOW_MILLIS
from tests.support.evaluation.evaluating import BUSY, DAY, SILENT, Watched, Watching, in_force, sold
from tests.support.evaluation.simulating import DAWN, clock_of, served, simulated
from tests.support.serving.serving_world import sale

SEEN = {"09:00": 7, "09:15": 4, "09:30": 1, "10:00": 6}
REBUILT = {"09:00": 7, "09:15": 4, "09:30": 8, "10:00": 4}


def changed_live(store: Watched) -> None:
    """A morning that an evaluator sees as it goes, with late receipts, and a rebuild at its end."""
    for time, count in SEEN.items():
        sold(store, time, count)
    for now in ("09:17", "09:32", "09:47", "10:17"):
        store.tick(f"{DAY}T{now}")
    rebuilt(store, REBUILT, 1)
    store.tick(f"{DAY}T18:30")


def rebuilt(store: Watched, counts: dict[str, int], generation: int) -> None:
    """A generation serves so many receipts a quarter hour, up to a quarter past ten."""
    for time, count in counts.items():
        # It has seen more events than the speed layer, whatever they were.
        row = sale(store.store, f"{DAY}T{time}", 20, 100, receipts=count, generation=generation)
        store.world.rows.append(row)
    served(store, until="10:15", generation=generation)


def against(
    store: Watched, rule_id: str = "busy", **more: Any
) -> tuple[int, int, list[AlertDifference]]:
    [found] = simulated(store, rule_id, against_published=True, **more).comparisons.values()
    return found.compared, found.left_out, [*found.differences]


def test_what_was_told_is_what_is_simulated(watched: Watching) -> None:
    store = watched(BUSY, SILENT)
    changed_live(store)

    assert against(store)[2] == []
    assert against(store, "silent")[2] == []
    # Begin and end of each: from 09:00 to 09:45, and up to the first receipt.
    assert (against(store)[0], against(store, "silent")[0]) == (2, 2)


@pytest.mark.parametrize(
    ("dropped", "said"),
    [("confirmed", "not_confirmed"), ("retracted", "not_called_for"), ("provisional", "not_told")],
)
def test_planted_difference_is_found(watched: Watching, dropped: str, said: str) -> None:
    store = watched(BUSY)
    changed_live(store)
    raised = [one for one in store.alerts if one.edge == "raise"]
    kept = [one for one in store.alerts if one.state != dropped]
    store.alerts = kept if dropped != "provisional" else [one for one in kept if one not in raised]

    assert said in [one.kind for one in against(store)[2]]


def test_what_is_provisional_is_left_out(watched: Watching) -> None:
    store = watched(BUSY)
    sold(store, "09:00", 7)
    store.tick(f"{DAY}T09:17")

    assert against(store) == (0, 1, [])


def test_day_whose_generation_was_not_judged_yet_says_nothing(watched: Watching) -> None:
    store = watched(BUSY)
    changed_live(store)
    rebuilt(store, {**REBUILT, "09:00": 1, "10:00": 9}, 2)

    page = simulated(store, against_published=True)

    assert [one.isoformat() for one in page.unevaluated_days] == [DAY]
    assert page.comparisons[store.store, WHOLE_STORE].differences == ()
    store.tick(f"{DAY}T19:30")
    assert simulated(store, against_published=True).unevaluated_days == ()
    # The raise moves to 09:30, and ends at 09:45; another one begins at 10:00.
    assert (against(store)[0], against(store)[2]) == (3, [])


def test_partition_that_was_never_judged_is_not_compared(begun: Watching) -> None:
    store = begun(BUSY)
    store.sends("2026-11-20")
    sold(store, "09:00", 7, generation=1)
    served(store, until="12:00")

    [found] = simulated(store, against_published=True).stores

    assert (found.episodes, [one.incomplete_windows for one in found.incomplete_days]) == ((), [16])
    assert against(store) == (0, 0, [])


def test_versions_hold_where_they_were_in_force(begun: Watching) -> None:
    store = begun(BUSY)
    later = replace(BUSY, condition=Threshold(">=", Decimal(9)))
    store.rules = type(store.rules)(
        in_force(BUSY, DAWN), in_force(later, f"{DAY}T10:00", version=2)
    )
    store.begin_again()
    store.sends("2026-11-20")
    store.tick(f"{DAY}T07:50")
    for time in ("09:00", "10:30", "11:00"):
        sold(store, time, 7 if time != "11:00" else 9, generation=1)
    served(store, until="12:00")
    store.tick(f"{DAY}T19:00")

    page = simulated(store, against_published=True)

    told = [(clock_of(one.episode.start), one.threshold) for one in page.stores[0].episodes]
    assert told == [("09:00", 5), ("11:00", 9)]
    assert against(store)[2] == []


def test_second_end_of_one_raise_is_one_too_many(watched: Watching) -> None:
    store = watched(BUSY)
    changed_live(store)
    end = next(one for one in store.alerts if (one.edge, one.state) == ("clear", "confirmed"))
    store.alerts.append(structs.replace(end, alert_id="f" * 64, occurrence=2))

    [one] = against(store)[2]

    assert (one.kind, one.edge, one.alert_id) == ("not_called_for", "clear", "f" * 64)


HOUR = 4 * WINDOW_MILLIS
A_DAY = frozenset(range(0, 24 * HOUR, WINDOW_MILLIS))
# Told of a quarter hour behind the day; as it was rebuilt then, the episode began in the day.
RAISED = PublishedAlert(
    alert_id="a",
    chain=Chain("busy", "367", WHOLE_STORE),
    version=1,
    edge="raise",
    window=25 * HOUR,
    state="confirmed",
    raised_at=0,
    start=20 * HOUR,
)
RAISED_IN_THE_DAY = structs.replace(RAISED, window=21 * HOUR)
# Told of a quarter hour behind the day too, and confirmed as one in it.
END = structs.replace(RAISED, alert_id="b", edge="clear", window=30 * HOUR, ended=22 * HOUR, of="a")


@pytest.mark.parametrize(
    ("changed", "left_out"),
    [
        pytest.param({}, 0, id="of this episode"),
        pytest.param({"start": 24 * HOUR}, 1, id="maybe of a later one"),
        pytest.param({"state": "provisional"}, 1, id="whether it is to be confirmed is not known"),
    ],
)
def test_raise_told_of_a_window_behind_the_span_is_compared_where_it_names_the_episode(
    changed: dict[str, Any], left_out: int
) -> None:
    span = ComparisonSpan(0, 24 * HOUR, (Episode(20 * HOUR, 20 * HOUR, 1),), A_DAY)

    found = compare_alerts(span, [structs.replace(RAISED, **changed)])

    assert (found.compared, found.left_out, found.differences) == (1 - left_out, left_out, ())


@pytest.mark.parametrize(("ended", "left_out"), [(22 * HOUR, 0), (25 * HOUR, 1)])
def test_end_told_of_a_window_behind_the_span_is_compared_where_it_names_the_end(
    ended: int, left_out: int
) -> None:
    episode = Episode(20 * HOUR, 20 * HOUR, 1, 22 * HOUR)
    end = structs.replace(END, ended=ended)

    found = compare_alerts(
        ComparisonSpan(0, 24 * HOUR, (episode,), A_DAY), [RAISED_IN_THE_DAY, end]
    )

    assert (found.compared, found.left_out, found.differences) == (2 - left_out, left_out, ())


def test_end_that_was_confirmed_as_one_before_the_span_is_no_part_of_it() -> None:
    next_day = frozenset(one + 24 * HOUR for one in A_DAY)
    span = ComparisonSpan(24 * HOUR, 48 * HOUR, (), next_day)

    found = compare_alerts(span, [RAISED_IN_THE_DAY, END])
    provisional = compare_alerts(
        span, [RAISED_IN_THE_DAY, structs.replace(END, state="provisional")]
    )

    assert (found.compared, found.left_out) == (0, 0)
    assert (provisional.compared, provisional.left_out) == (0, 1)


@pytest.mark.parametrize(("is_cut", "left_out"), [(False, 0), (True, 1)])
def test_end_that_nothing_calls_for_is_found_unless_the_episode_may_have_ended_behind_the_days(
    is_cut: bool, left_out: int
) -> None:
    goes_on = Episode(20 * HOUR, 20 * HOUR, 1)

    span = ComparisonSpan(0, 24 * HOUR, (goes_on,), A_DAY, is_cut)
    found = compare_alerts(span, [RAISED_IN_THE_DAY, END])

    expected = [] if is_cut else [("not_called_for", "b")]
    assert [(one.kind, one.alert_id) for one in found.differences] == expected
    assert found.left_out == left_out
