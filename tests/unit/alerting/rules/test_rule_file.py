"""A rule file is taken, or refused with a line for each field that does not fit."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from alerting.rules.checks import find_unsupported_field
from alerting.rules.rule import (
    EVALUATED_KINDS,
    ClockHours,
    InGroup,
    Rule,
    Threshold,
    rule_to_fields,
)
from alerting.rules.rule_file import parse_rule_yaml, rule_from_fields
from tests.unit.alerting.rules.rules import CATALOGUE, GOOD, problems, rule, told

TEXT = """
rule_id: many-visitors
metric: visitors
stores: [0367, NO, 406]
condition: {op: ">=", value: 40.5}
clear: {op: "<", value: 30}
for: 2
within: [{days: fri-mon, from: "22:00", to: "02:00"}]
minimum: {visitors: 20}
unless: [door-silent]
channels: [floor-tablet]
backfill: true
"""


def test_a_file_is_read_as_it_is_written_and_its_defaults_are_filled_in() -> None:
    assert parse_rule_yaml(TEXT, CATALOGUE) == Rule(
        rule_id="many-visitors",
        metric="visitors",
        stores=("0367", "NO", "406"),
        condition=Threshold(">=", Decimal("40.5")),
        clear=Threshold("<", Decimal(30)),
        for_=2,
        within=(ClockHours("fri-mon", "22:00", "02:00"),),
        minimum={"visitors": 20},
        unless=("door-silent",),
        channels=("floor-tablet",),
        backfill=True,
    )


@pytest.mark.parametrize("kind", GOOD)
def test_a_rule_of_each_kind_fits_and_one_place_says_which_can_be_evaluated(kind: str) -> None:
    good = rule(kind)

    assert (good.kind, find_unsupported_field(good) is None) == (kind, kind in EVALUATED_KINDS)
    assert rule_from_fields(rule_to_fields(good)) == good


@pytest.mark.parametrize(
    ("field", "value"), [("subject", "category"), ("subject", "till"), ("backfill", True)]
)
def test_what_nobody_evaluates_yet_is_said_and_not_passed_over(field: str, value: Any) -> None:
    changed: dict[str, Any] = {field: value}
    fits = replace(rule(), **changed)

    found = find_unsupported_field(fits)

    assert found is not None and found.startswith(f"{field}: ")
    # Of stocks each article is.
    assert find_unsupported_field(rule("stock")) is None


def test_a_silence_rule_raises_on_silence_without_saying_so() -> None:
    assert (rule("silence").on_silence, rule().on_silence) == ("raise", "hold")


def test_a_stock_rule_is_of_articles_and_eager_without_saying_so() -> None:
    assert (rule("stock").subject, rule("stock").evaluate) == ("item", "eager")
    assert (rule("stock", evaluate="close").evaluate, rule().evaluate) == ("close", "close")


def test_stores_are_all_some_or_a_group_and_numbers_are_ids_too() -> None:
    assert rule(stores="all").stores == "all"
    assert rule(stores=[367, "406"]).stores == ("367", "406")
    assert rule(stores={"region": "west"}).stores == InGroup("west")


def test_several_errors_are_told_at_once_each_with_its_field_and_the_fix() -> None:
    wrong = told(for_="0", severity="bad", effective_from="2017-01-01", colour="red")

    assert problems(wrong) == [
        "for: 0 does not fit; wanted: a whole number of windows from 1 to 96",
        "severity: 'bad' does not fit; wanted: info, warning or critical",
        "effective_from: is no field: a version is in force by the time at which it was applied;"
        " leave it out",
        f"colour: unknown field; known are {', '.join(rule_to_fields(rule()))}",
    ]


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [("for_", 1, 96), ("clear_for", 1, 96), ("delay", 0, 3600), ("late_after", 0, 2_592_000)],
)
def test_whole_numbers_are_taken_to_their_borders_and_not_beyond(
    field: str, least: int, most: int
) -> None:
    for number in (least, most):
        assert getattr(rule(**{field: str(number)}), field) == number
        assert getattr(rule(**{field: number}), field) == number
    for wrong in (least - 1, most + 1, "1e2", "1_0", " 2", "2.0", "", "nan", True, 1.5, "9" * 30):
        [problem] = problems(told(**{field: wrong}))
        assert problem.startswith(f"{field.removesuffix('_')}: ")


@pytest.mark.parametrize(
    "value",
    ["1e400", "NaN", "inf", "1_000", "0x1", "", " 6", "6 ", "٦", "1" * 16, "0.1234567", "9" * 5000],
)
def test_a_value_that_is_no_plain_number_is_refused(value: str) -> None:
    [problem] = problems(told(condition={"op": ">=", "value": value}, clear=None))

    assert problem.startswith("condition.value: ") and len(problem) < 200


@pytest.mark.parametrize("value", [10**15, float("nan"), float("inf"), 1e300, True, None, [], {}])
def test_a_value_that_json_has_and_that_is_no_plain_number_is_refused(value: Any) -> None:
    [problem] = problems(told(condition={"op": ">=", "value": value}, clear=None))

    assert problem.startswith("condition")


@pytest.mark.parametrize("value", ["6", 6, 6.0, "-0.25", -0.25, "9" * 15, "0.000001"])
def test_a_plain_number_is_taken_as_it_is_written(value: Any) -> None:
    condition = rule(condition={"op": ">=", "value": value}, clear=None).condition

    assert isinstance(condition, Threshold) and condition.value == Decimal(str(value))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("rule_id", "Queue", "rule_id: 'Queue' does not fit; wanted: 1 to 63 of a-z 0-9 -"),
        ("rule_id", "a" * 64, "rule_id: "),
        ("rule_id", "a|1", "rule_id: "),
        ("rule_id", "queue\n", "rule_id: "),
        ("kind", "edge", "kind: 'edge' does not fit; wanted: threshold, baseline"),
        ("metric", "", "metric: '' does not fit"),
        ("metric", "profit", "metric: there is no 'profit'; there are conversion, inside"),
        ("family", "traffic", "family: it follows from the metric"),
        ("stores", [], "stores: [] does not fit; wanted: `all`, 1 to 10,000"),
        ("stores", "some", "stores: 'some'"),
        ("stores", ["367", "367"], "stores: 367 stands there twice"),
        ("stores", [str(one) for one in range(10_001)], "stores: "),
        ("stores", ["a b"], "stores[0]: 'a b' does not fit"),
        ("stores", {"region": ""}, "stores.region: "),
        ("stores", {"area": "west"}, "stores.area: unknown field"),
        ("subject", "person", "subject: 'person' does not fit; wanted: none, item"),
        ("subject", "device", "subject: visitors cannot be split by device"),
        ("condition", "many", "condition: 'many' does not fit"),
        ("condition", {"op": "=", "value": 6}, "condition.op: Input should be '>='"),
        ("condition", {"op": ">="}, "condition.value: is missing; wanted: `{op:"),
        ("condition", {"op": ">=", "value": 6, "unit": "m"}, "condition.unit: unknown field"),
        ("clear", {"op": ">=", "value": 6}, "clear: some values fulfil it and condition too"),
        ("evaluate", "soon", "evaluate: 'soon'"),
        ("within", [], "within: [] does not fit; wanted: `always`"),
        ("within", [{"days": "mon"}], "within[0].from: is missing"),
        ("within", [{"days": "monday", "from": "1:00", "to": "2:00"}], "within[0]: 'monday' is no"),
        ("within", [{"days": "holidays", "from": "01:00", "to": "02:00"}], "within[0]: 'holidays'"),
        (
            "within",
            [{"days": "mon", "from": "8", "to": "20:00"}],
            "within[0]: mon: '8-20:00' is no",
        ),
        ("within", [{"days": "mon", "from": "08:00", "to": "25:00"}], "within[0]: mon: "),
        ("minimum", {"visitors": "0"}, "minimum.visitors: "),
        ("minimum", {"profit": "1"}, "minimum: there is no metric 'profit'"),
        ("minimum", {"conversion": "1"}, "minimum: conversion is no sum but of kind ratio"),
        ("unless", ["a", "a"], "unless: a stands there twice"),
        ("unless", ["many-visitors"], "unless: a rule cannot wait for itself"),
        ("title", "a\nb", "title: holds the unseen character U+000A"),
        ("title", "safe\u202eevil", "title: holds the unseen character U+202E"),
        ("title", "\ud800", "title: "),
        ("title", "x" * 201, "title: "),
        ("channels", ["a", ""], "channels[1]: "),
        ("channels", [f"c{one}" for one in range(21)], "channels: "),
        ("backfill", "maybe", "backfill: 'maybe' does not fit; wanted: true or false"),
        ("version", "3", "version: is no field: versions are numbered"),
    ],
)
def test_a_field_that_does_not_fit_is_named_with_the_fix(field: str, value: Any, said: str) -> None:
    found = problems(told(**{field: value}))

    assert [one for one in found if one.startswith(said)], found
    assert all(len(one) < 700 and one.isprintable() for one in found)


@pytest.mark.parametrize(
    ("kind", "changed", "said"),
    [
        ("threshold", {"metric": None}, "metric: a threshold rule needs one"),
        ("threshold", {"condition": None}, "condition: a threshold rule needs one"),
        ("threshold", {"kind": "baseline"}, "condition: a baseline rule has no such condition"),
        ("baseline", {"kind": "threshold"}, "condition: a threshold rule has no such condition"),
        (
            "baseline",
            {"condition": {"baseline": "last_year", "sigmas": "3"}},
            "condition.baseline: Input should be 'same_weekday_4w'",
        ),
        (
            "baseline",
            {"condition": {"baseline": "hour_of_week", "sigmas": "3", "change": "<= -3 %"}},
            "condition: either `change` or `sigmas`",
        ),
        ("baseline", {"condition": {"baseline": "hour_of_week"}}, "condition: either"),
        (
            "baseline",
            {"condition": {"baseline": "hour_of_week", "sigmas": "0"}},
            "condition.sigmas: '0' is no number above 0",
        ),
        (
            "baseline",
            {"condition": {"baseline": "hour_of_week", "change": "-30 %"}},
            "condition.change: '-30 %' is no change",
        ),
        ("baseline", {"clear": {"op": ">=", "value": "1"}}, "clear: it speaks of another number"),
        (
            "baseline",
            {"clear": {"baseline": "same_weekday_4w", "change": ">= -30 %"}},
            "clear: some values fulfil it",
        ),
        ("silence", {"family": None}, "family: a silence rule needs one"),
        ("silence", {"family": "smoke"}, "family: there is no 'smoke'; there are queues"),
        ("silence", {"metric": "visitors"}, "metric: a silence rule has none"),
        ("silence", {"condition": {"op": "<", "value": "1"}}, "condition: a silence rule has none"),
        ("silence", {"evaluate": "eager"}, "evaluate: a window that has just begun is silent"),
        ("silence", {"on_silence": "hold"}, "on_silence: a silence rule raises"),
        ("silence", {"minimum": {"visitors": "3"}}, "minimum: a silence rule has none"),
        ("silence", {"subject": "till"}, "subject: traffic cannot be split by till"),
        ("threshold", {"metric": "on_hand"}, "metric: on_hand is a stock; write `kind: stock`"),
        ("stock", {"metric": "inside"}, "metric: inside is no stock; a stock rule needs one"),
        ("stock", {"clear": None}, "clear: a stock rule needs one"),
        ("stock", {"clear": {"op": ">", "value": "0.0"}}, "clear: nothing lies between it"),
        ("stock", {"subject": "none"}, "subject: a stock rule judges each article by itself"),
        ("stock", {"subject": "till"}, "subject: a stock rule judges each article by itself"),
        ("stock", {"on_silence": "raise"}, "on_silence: nothing is known of an article"),
        (
            "stock",
            {"condition": {"op": ">=", "value": "9"}, "clear": {"op": "<=", "value": "5"}},
            "condition: a stock rule is of too little",
        ),
    ],
)
def test_what_a_kind_needs_or_cannot_have_is_said(
    kind: str, changed: dict[str, Any], said: str
) -> None:
    [problem] = problems(told(kind, **changed))

    assert problem.startswith(said)


def test_a_ratio_needs_a_minimum_of_what_it_is_a_share_of() -> None:
    share = {"metric": "conversion", "condition": {"op": "<", "value": "0.1"}, "clear": None}

    [problem] = problems(told(**share))

    assert problem.startswith("minimum: conversion is a share of visitors")
    assert rule(**share, minimum={"visitors": "20"}).minimum == {"visitors": 20}
