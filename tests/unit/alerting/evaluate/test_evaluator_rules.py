"""What the evaluator makes of fields of rules, of stores, and of days that come at once."""

from dataclasses import replace
from decimal import Decimal

import pytest

from alerting.evaluate.verdicts import evaluation_pass
from alerting.rules.rule import Rule, Threshold
from runtime.registry.sources import SALES, TRAFFIC
from tally.alerts.tick import SpeedEpoch
from tests.support.evaluation.evaluating import (
    BUSY,
    DAY,
    SILENT,
    ListedRules,
    Watching,
    in_force,
    said,
    sold,
)
from tests.support.serving.serving_world import counted, flip, sale


def test_new_store_is_not_silent_before_it_was_seen(begun: Watching) -> None:
    store = begun(SILENT, since=f"{DAY}T00:00")
    store.tick("2026-11-23T22:00")
    store.tick(f"{DAY}T10:02")
    store.sends("2026-08-01")
    sold(store, "10:00", 1)

    assert store.tick(f"{DAY}T10:17") == []
    assert store.tick(f"{DAY}T10:32") == []
    assert said(store.tick(f"{DAY}T10:47")) == [("raise", "provisional", "10:30")]


def test_speed_rows_out_of_force_are_no_silence(watched: Watching) -> None:
    store = watched(SILENT)
    raised = flip(DAY, 1, f"{DAY}T08:40", 0, covered_until=f"{DAY}T08:00")
    store.publish(replace(raised, epoch=SALES.epoch + 1))

    assert store.tick(f"{DAY}T09:30") == []
    assert said(store.tick(f"{DAY}T09:31", speaking=SpeedEpoch(SALES.epoch + 1))) == [
        ("raise", "provisional", "08:15")
    ]


def test_rule_that_waits_for_another_says_nothing_while_that_one_s_alert_is_open(
    watched: Watching,
) -> None:
    few = Rule(
        rule_id="few",
        metric="transactions",
        condition=Threshold("<=", Decimal(1)),
        on_silence="raise",
        unless=("silent",),
    )
    store = watched(few, replace(SILENT, for_=1))
    sold(store, "08:15", 1)

    told = [store.tick(f"{DAY}T{time}") for time in ("08:17", "08:32", "08:47", "09:02")]

    rules = [[(one.rule_id, one.edge, one.window.start[11:16]) for one in some] for some in told]
    assert rules == [
        [("silent", "raise", "08:00")],
        [("silent", "clear", "08:15"), ("few", "raise", "08:15")],
        [("silent", "raise", "08:30")],
        [],
    ]


def test_rule_that_waits_is_evaluated_again_with_the_one_that_it_waits_for(
    watched: Watching,
) -> None:
    empty = Rule(rule_id="empty", metric="visitors_in", condition=Threshold("<=", Decimal(3)))
    store = watched(empty, replace(BUSY, unless=("empty",)))
    store.sends("2026-11-20", TRAFFIC)
    sold(store, "09:00", 7)
    store.world.rows.append(counted(store.store, f"{DAY}T09:00", 1, 2))

    first = store.tick(f"{DAY}T09:17", traffic=1)
    store.world.rows[-1] = counted(store.store, f"{DAY}T09:00", 2, 9)
    then = store.hint(f"{DAY}T09:00", TRAFFIC)

    assert [[one.rule_id for one in some] for some in (first, then)] == [["empty"], ["busy"]]


def test_eager_rule_looks_at_a_day_as_it_begins(watched: Watching) -> None:
    store = watched(replace(BUSY, evaluate="eager"))
    store.tick(f"{DAY}T22:50")
    # Midnight in Rome; nothing of it has closed, and no notice has come.
    sold(store, "23:00", 7)

    assert said(store.tick(f"{DAY}T23:01")) == [("raise", "provisional", "23:00")]


def test_store_that_has_never_sent_of_a_family_is_not_silent_in_it(watched: Watching) -> None:
    doors = Rule(rule_id="doors", kind="silence", family="traffic", on_silence="raise")
    store = watched(doors, replace(BUSY, unless=("doors",)))
    sold(store, "09:00", 7)

    assert [one.rule_id for one in store.tick(f"{DAY}T09:17", traffic=1)] == ["busy"]


def test_below_the_minimum_a_share_says_nothing(watched: Watching) -> None:
    dear = Rule(
        rule_id="dear",
        metric="average_basket",
        condition=Threshold(">=", Decimal(100)),
        minimum={"transactions": 3},
    )
    store = watched(dear)
    sold(store, "08:00", 2)
    sold(store, "08:15", 3)

    assert store.tick(f"{DAY}T08:17") == []
    assert said(store.tick(f"{DAY}T08:32")) == [("raise", "provisional", "08:15")]


def test_edit_of_a_rule_goes_on_with_its_alert_and_a_retired_one_ends_none(
    begun: Watching,
) -> None:
    store = begun()
    edited = replace(BUSY, clear=Threshold("<=", Decimal(3)))
    store.rules = ListedRules(
        in_force(BUSY, f"{DAY}T08:00"),
        in_force(edited, f"{DAY}T08:15", 2),
        in_force(edited, f"{DAY}T08:45", 3, retired=True),
    )
    store.begin_again()
    store.sends("2026-11-20")
    for time, events in (("08:00", 7), ("08:15", 6), ("08:30", 3), ("08:45", 9)):
        sold(store, time, events)

    assert said(store.tick(f"{DAY}T08:32")) == [("raise", "provisional", "08:00")]
    [cleared] = store.tick(f"{DAY}T10:00")

    assert (cleared.edge, cleared.rule_version, cleared.threshold) == ("clear", 1, 3)


def test_rule_is_about_its_stores_alone(watched: Watching) -> None:
    store = watched(replace(BUSY, stores=("406",)))
    sold(store, "09:00", 7)

    assert store.tick(f"{DAY}T09:17") == []


def test_evaluator_that_was_off_for_a_day_tells_raise_and_clear_late_and_nothing_more(
    watched: Watching,
) -> None:
    store = watched(BUSY)
    sold(store, "09:00", 7)
    sold(store, "12:00", 1)
    store.begin_again()

    told = store.tick("2026-11-25T09:00")

    assert said(told) == [("raise", "provisional", "09:00"), ("clear", "provisional", "12:00")]
    assert {one.late for one in told} == {True}
    assert store.tick("2026-11-25T09:01") == []


def test_erased_number_is_not_told_once_more_by_taking_its_alert_back(watched: Watching) -> None:
    store = watched(BUSY)
    sold(store, "09:00", 7, generation=1)
    store.publish(flip(DAY, 1, f"{DAY}T09:40", 0, covered_until=f"{DAY}T09:15"))
    [raised] = store.tick(f"{DAY}T09:41")
    sold(store, "09:00", 1, generation=2)
    erased = flip(DAY, 2, f"{DAY}T10:40", 0, covered_until=f"{DAY}T09:15")
    store.publish(replace(erased, epoch=SALES.epoch + 1))

    [retracted] = store.tick(f"{DAY}T10:41")

    assert (raised.state, retracted.alert_id) == ("confirmed", raised.alert_id)
    assert (retracted.state, retracted.reason, retracted.value) == ("retracted", "erasure", None)


def test_rebuild_of_many_days_is_evaluated_in_lots_and_to_its_end(
    watched: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation_pass, "MAX_RULE_DAYS", 1)
    store = watched(BUSY, since="2026-11-20T08:00")
    days = ["2026-11-21", "2026-11-22", "2026-11-23"]
    for day in days:
        store.world.rows.append(sale(store.store, f"{day}T09:00", 7, 700, generation=1))
        store.publish(flip(day, 1, f"{DAY}T07:55", 0))

    told = [store.tick(f"{DAY}T08:00"), store.hint(f"{DAY}T07:45"), store.tick(f"{DAY}T08:01")]

    raised = [[one.window.start[:10] for one in some if one.edge == "raise"] for some in told]
    assert raised == [[days[2]], [days[1]], [days[0]]]
    assert store.tick(f"{DAY}T08:02") == []
