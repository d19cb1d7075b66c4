"""Conditions in `and`: read, checked, and evaluated together with the rule's own condition."""

from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from msgspec import structs

from alerting.episodes.verdict import (
    FurtherFacts,
    Verdict,
    WindowFacts,
    WindowPhase,
    evaluate_window,
)
from alerting.rules.rule import FurtherCondition, Rule, Threshold
from alerting.rules.rule_file import dump_rule_yaml, parse_rule_yaml
from alerting.rules.versions import RuleRecord, StoredRule, plan_rule
from runtime.registry.sources import TRAFFIC
from tally.errors import BadRule
from tests.support.alerts.store_evaluation import StoreEvaluation
from tests.support.evaluation.evaluating import DAY, Watched, Watching, in_force, said, sold
from tests.support.evaluation.simulating import read_history
from tests.support.serving.serving_world import World, counted, flip
from tests.unit.alerting.rules.rules import rule, told
from web.dashboard.rules.markup import condition_text

FEW_BUY = Rule(
    rule_id="crowd-that-does-not-buy",
    metric="visitors_in",
    condition=Threshold(">=", Decimal(100)),
    and_=(FurtherCondition("transactions", "<", Decimal(5)),),
)
TEXT = """rule_id: crowd-that-does-not-buy
metric: visitors_in
condition:
  op: '>='
  value: '100'
and:
- metric: transactions
  op: <
  value: '5'
"""


def test_conditions_in_and_are_read_and_written() -> None:
    assert parse_rule_yaml(TEXT) == FEW_BUY
    assert parse_rule_yaml(dump_rule_yaml(FEW_BUY)) == FEW_BUY
    assert condition_text(FEW_BUY) == "visitors_in >= 100 and transactions < 5"


def test_a_stored_rule_without_the_field_reads_as_before_and_one_with_it_reads_back() -> None:
    old = b'{"rule_id":"a","version":1,"revision":1,"retired":false,"rule":{"rule_id":"a","metric":"units","condition":{"op":">=","value":"6"}}}'  # noqa: E501
    stored = StoredRule(rule=FEW_BUY, version=1)
    records = [RuleRecord(0, b"a|1", old, 0), RuleRecord(1, stored.key.encode(), stored.value, 0)]

    found = read_history(records)

    assert found.problems == ()
    expected = Rule(rule_id="a", metric="units", condition=Threshold(">=", Decimal(6)))
    assert found.versions["a"][0].rule == expected
    assert found.versions[FEW_BUY.rule_id][0].rule == FEW_BUY


def test_another_further_condition_is_another_version_and_another_order_is_not() -> None:
    two = replace(FEW_BUY, and_=(*FEW_BUY.and_, FurtherCondition("units", ">", Decimal(1))))
    newest = in_force(two, f"{DAY}T08:00")

    assert plan_rule(replace(two, and_=two.and_[::-1]), newest).change == "same"
    assert plan_rule(FEW_BUY, newest).change == "version"


@pytest.mark.parametrize(
    ("kind", "changed", "problem"),
    [
        ("threshold", {"and_": "revenue < 5"}, "and: 'revenue < 5' does not fit; wanted: up to 10"),
        ("threshold", {"and_": [5]}, "and[0]: 5 does not fit"),
        ("threshold", {"and_": [{"metric": "revenue", "op": "<"}]}, "and[0].value: is missing"),
        (
            "threshold",
            {"and_": [{"metric": "revenue", "op": "<", "value": "5"}, {"metric": "", "op": "="}]},
            "and[1].metric: '' does not fit; wanted: an id of the catalogue",
        ),
        (
            "threshold",
            {"and_": [{"metric": "revenue", "op": "=", "value": "5"}]},
            "and[0].op: Input should be '>=', '>', '<=' or '<' (got '=')",
        ),
        ("threshold", {"and_": [{"metric": "revenue", "for": "2"}]}, "and[0].for: unknown field"),
        ("threshold", {"and_": [{"metric": "m", "op": "<", "value": "1"}] * 11}, "does not fit"),
        (
            "threshold",
            {"and_": [{"metric": "sold", "op": "<", "value": "5"}]},
            "and: there is no metric 'sold'; there are conversion,",
        ),
        (
            "threshold",
            {"and_": [{"metric": "visitors", "op": "<", "value": "50"}]},
            "and: visitors is the metric of `condition`; name another one",
        ),
        (
            "threshold",
            {"and_": [{"metric": "on_hand", "op": "<", "value": "5"}]},
            "and: on_hand is a stock, of single articles; name a metric of the store",
        ),
        (
            "threshold",
            {"and_": [{"metric": "conversion", "op": "<", "value": "0.1"}]},
            "minimum: conversion is a share of visitors, and of few it is chance",
        ),
        (
            "threshold",
            {"and_": [{"metric": "revenue", "op": ">", "value": "1"}], "evaluate": "eager"},
            "evaluate: more records of a window could undo this condition on revenue",
        ),
        (
            "silence",
            {"and_": [{"metric": "visitors", "op": ">", "value": "1"}]},
            "and: a silence rule has none; leave it out",
        ),
        (
            "stock",
            {"and_": [{"metric": "visitors", "op": ">", "value": "1"}]},
            "and: a stock rule judges each article by itself; leave it out",
        ),
    ],
)
def test_what_does_not_fit_is_told(kind: str, changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadRule) as raised:
        rule(kind, **changed)

    assert any(problem in one for one in raised.value.problems), raised.value.problems


def test_a_share_in_and_with_its_minimum_fits() -> None:
    share = {"metric": "conversion", "op": "<", "value": "0.1"}
    found = rule("baseline", **told(and_=[share], minimum={"visitors": "20"}, **_BASELINE))

    assert found.and_ == (FurtherCondition("conversion", "<", Decimal("0.1")),)


_BASELINE = {
    "rule_id": "less",
    "kind": "baseline",
    "metric": "revenue",
    "condition": {"baseline": "same_weekday_4w", "change": "<= -30 %"},
    "clear": None,
}
# True, false and not known, of one condition: a value and whether it is known.
TRUTHS: dict[bool | None, list[tuple[int | None, bool]]] = {
    True: [(7, True)],
    False: [(1, True)],
    None: [(None, True), (7, False), (1, False)],
}


def conjunction(truths: tuple[bool | None, ...]) -> bool | None:
    return False if False in truths else None if None in truths else True


def test_verdict_is_that_of_the_conjunction() -> None:
    above, evaluated = Threshold(">=", Decimal(5)), 0
    both = Rule(
        rule_id="all",
        metric="a",
        condition=above,
        and_=tuple(FurtherCondition(name, ">=", Decimal(5)) for name in "bc"),
    )
    expected: dict[bool | None, Verdict] = {True: 1, False: -1, None: 0}
    for truths in product(TRUTHS, repeat=3):
        for (value, is_known), *further in product(*(TRUTHS[one] for one in truths)):
            facts = WindowFacts(
                phase="closed",
                value=value,
                is_known=is_known,
                further=tuple(FurtherFacts(*one) for one in further),
            )
            assert evaluate_window(both, facts) == expected[conjunction(truths)], (truths, facts)
            assert evaluate_window(both, structs.replace(facts, is_exempt=True)) == 0
            evaluated += 1

    assert evaluated == (1 + 1 + 3) ** 3


@pytest.mark.parametrize(
    ("phase", "value", "other", "changed", "expected"),
    [
        # Between `condition` and `clear` all stays, unless another condition is false.
        ("closed", 4, 7, {}, 0),
        ("closed", 4, 1, {}, -1),
        ("closed", 2, 7, {}, -1),
        ("closed", 2, None, {}, -1),
        # Nothing has come: not known, but to `on_silence: raise` and to a generation.
        ("closed", 7, None, {}, 0),
        ("closed", 7, None, {"on_silence": "raise"}, 1),
        ("covered", 7, None, {}, -1),
        # While the window is open only what all conditions prove is told, and nothing clears.
        ("open", 7, 7, {}, 0),
        ("open", 7, 7, {"evaluate": "eager"}, 1),
        ("open", 7, None, {"evaluate": "eager"}, 0),
        ("open", 7, 1, {"evaluate": "eager"}, 0),
    ],
)
def test_table_of_verdicts(
    phase: WindowPhase,
    value: int,
    other: int | None,
    changed: dict[str, Any],
    expected: Verdict,
) -> None:
    wanted = replace(
        Rule(
            rule_id="both",
            metric="a",
            condition=Threshold(">=", Decimal(5)),
            clear=Threshold("<=", Decimal(2)),
            and_=(FurtherCondition("b", ">=", Decimal(5)),),
        ),
        **changed,
    )
    facts = WindowFacts(phase=phase, value=value, further=(FurtherFacts(other),))

    assert evaluate_window(wanted, facts) == expected


def test_below_the_minimum_a_window_says_nothing_whatever_and_says() -> None:
    facts = WindowFacts(
        phase="closed", value=7, meets_minimum=False, further=(FurtherFacts(1, True),)
    )

    assert evaluate_window(FEW_BUY, facts) == 0


def crowd(watched: Watching) -> Watched:
    """A store that has sent receipts and counts for days."""
    store: Watched = watched(FEW_BUY)
    store.sends("2026-11-20", TRAFFIC)
    store.tick(f"{DAY}T07:51", traffic=1)
    return store


def test_alert_is_raised_where_both_hold_and_ends_where_one_does_not(watched: Watching) -> None:
    store = crowd(watched)
    for time, visitors, receipts in (("09:00", 120, 7), ("09:15", 130, 2), ("09:30", 140, 6)):
        store.world.rows.append(counted("367", f"{DAY}T{time}", visitors, visitors))
        sold(store, time, receipts)

    assert store.tick(f"{DAY}T09:17", traffic=1) == []
    [raised] = store.tick(f"{DAY}T09:32", traffic=1)
    [ended] = store.tick(f"{DAY}T09:47", traffic=1)

    assert (raised.edge, raised.window.start) == ("raise", f"{DAY}T09:15:00Z")
    assert (raised.metric, raised.value, raised.threshold) == ("visitors_in", 130, 100)
    assert [(one.family, one.events) for one in raised.evidence.read] == [
        ("traffic", 130),
        ("sales", 2),
    ]
    assert (ended.edge, ended.of) == ("clear", raised.alert_id)


def test_alert_waits_for_both_families_and_is_confirmed_by_both_generations(
    watched: Watching,
) -> None:
    store = crowd(watched)
    store.world.rows.append(counted("367", f"{DAY}T09:15", 130, 130))
    sold(store, "09:15", 2)
    # Receipts have been read up to now, counts have not.
    assert store.tick(f"{DAY}T09:32") == []
    assert said(store.tick(f"{DAY}T09:33", traffic=1)) == [("raise", "provisional", "09:15")]

    store.world.rows.append(counted("367", f"{DAY}T09:15", 130, 130, generation=1))
    store.publish(flip(DAY, 1, f"{DAY}T10:40", 0, covered_until=f"{DAY}T09:30"), TRAFFIC)
    assert store.tick(f"{DAY}T10:41", traffic=1) == []
    sold(store, "09:15", 2, generation=2)
    store.publish(flip(DAY, 2, f"{DAY}T10:42", 0, covered_until=f"{DAY}T09:30"))
    assert said(store.tick(f"{DAY}T10:43", traffic=1)) == [("raise", "confirmed", "09:15")]


def test_two_rules_that_differ_in_and_alone_do_not_share_what_is_known() -> None:
    world = World()
    world.rows += [counted("367", f"{DAY}T09:00", 120, 120)]
    plain, other = replace(FEW_BUY, and_=()), FEW_BUY
    evaluation = StoreEvaluation(world, f"{DAY}T12:00")

    found = [
        [one.verdict.verdict for one in evaluation.of_day(rule, f"{DAY}T10:00")]
        for rule in (plain, other, plain)
    ]

    place = 40
    assert [one[place] for one in found] == [1, 0, 1]
    assert found[0] == found[2] != found[1]
