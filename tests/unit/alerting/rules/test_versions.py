"""Versions are what the records of the topic make them, whoever reads them when."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from alerting.rules.rule import COSMETIC_FIELDS, Rule, RuleVersion, version_at
from alerting.rules.versions import (
    RuleHistory,
    RuleRecord,
    StoredRule,
    effective_from,
    meaning_fields,
    plan_retirement,
    plan_rule,
)
from schemas.loader import FOLDER
from tally.errors import TallyError
from tests.support.evaluation.simulating import read_history
from tests.unit.alerting.rules.rules import rule, told

# 2026-11-26 10:07 UTC and 2017-03-26 00:59:59.999, a quarter of an hour in milliseconds.
NOW, THEN, WINDOW = 1_795_687_620_000, 1_490_489_999_999, 900_000
WEST = {"region": "west"}


def record(offset: int, stored: StoredRule, arrived_ms: int = NOW) -> RuleRecord:
    return RuleRecord(offset, stored.key.encode(), stored.value, arrived_ms)


def version(number: int, revision: int = 1, **changed: Any) -> StoredRule:
    return StoredRule(rule=rule(**changed), version=number, revision=revision)


def chain(records: Iterable[RuleRecord]) -> tuple[RuleVersion, ...]:
    return read_history(records).versions["many-visitors"]


@pytest.mark.parametrize(
    ("arrived", "start"),
    [
        # 10:07 begins at 10:30; on the grid, one window later exactly.
        (NOW, NOW - 7 * 60_000 + 2 * WINDOW),
        (NOW - 7 * 60_000, NOW - 7 * 60_000 + WINDOW),
        (NOW - 7 * 60_000 - 1, NOW - 7 * 60_000 + WINDOW),
        (THEN, THEN + 1 + WINDOW),
    ],
)
def test_a_version_begins_with_the_first_window_that_is_a_whole_one_away(
    arrived: int, start: int
) -> None:
    assert effective_from(arrived) == start
    [made] = chain([record(0, version(1), arrived)])
    assert made.effective_from == start


@given(st.integers(0, 4_000_000_000_000))
def test_no_window_that_has_begun_is_ever_evaluated_by_it(arrived: int) -> None:
    start = effective_from(arrived)

    assert start % WINDOW == 0 and arrived + WINDOW <= start < arrived + 2 * WINDOW


def test_of_two_records_of_one_version_the_first_by_offset_holds() -> None:
    first, second = version(1, for_=2), version(1, for_=3)
    records = [record(5, first), record(9, second, NOW + 1), record(7, second)]

    for order in (records, records[::-1]):
        [made] = chain(order)
        assert (made.rule.for_, made.effective_from) == (2, effective_from(NOW))


@given(st.permutations(range(6)), st.lists(st.integers(0, 5)))
def test_order_and_repeats_of_reading_change_nothing(order: list[int], again: list[int]) -> None:
    records = [
        record(0, version(1)),
        record(1, version(1, for_=9)),
        record(2, version(2, for_=4), NOW + WINDOW),
        record(3, version(2, revision=2, for_=4, title="Now")),
        RuleRecord(4, b"many-visitors|3", b"{", NOW),
        record(5, StoredRule(rule=rule(for_=4), version=3, retired=True), NOW + 2 * WINDOW),
    ]

    read = read_history([records[one] for one in order])

    assert read == read_history(records)
    assert read.versions == read_history(records + [records[one] for one in again]).versions


def test_the_version_of_a_window_is_the_highest_that_has_begun() -> None:
    made = chain(
        [
            record(0, version(1)),
            record(1, version(2, for_=2), NOW + 10 * WINDOW),
            record(2, StoredRule(rule=rule(for_=2), version=3, retired=True), NOW + 20 * WINDOW),
        ]
    )
    starts = [one.effective_from for one in made]

    found = [version_at(made, at) for start in starts for at in (start - WINDOW, start)]

    assert [one and (one.version, one.retired) for one in found] == [
        None,
        (1, False),
        (1, False),
        (2, False),
        (2, False),
        (3, True),
    ]


def test_a_brokers_clock_that_was_set_back_does_not_bring_an_older_version_back() -> None:
    made = chain([record(0, version(1), NOW + 10 * WINDOW), record(1, version(2, for_=2), NOW)])

    found = version_at(made, NOW + 100 * WINDOW)

    assert found is not None and found.version == 2


@pytest.mark.parametrize("name", COSMETIC_FIELDS)
def test_a_cosmetic_change_is_a_revision_that_holds_at_once(name: str) -> None:
    value = {"severity": "critical", "channels": ["x"], "late_after": 5, "backfill": True}
    changed = rule(**{name: value.get(name, "other")})
    [first] = chain([record(0, version(1))])

    plan = plan_rule(changed, first)

    assert (plan.change, [one.field for one in plan.fields]) == ("revision", [name])
    assert plan.stored is not None and plan.stored.key == "many-visitors|1|2"
    [made] = chain([record(0, version(1)), record(1, plan.stored, NOW + 99 * WINDOW)])
    assert (made.version, made.revision, made.effective_from) == (1, 2, first.effective_from)
    assert made.rule == changed and meaning_fields(made.rule) == meaning_fields(first.rule)


@pytest.mark.parametrize(
    "stored",
    [
        version(1, revision=2, for_=7, title="Mine"),
        version(2, revision=2, title="Of nothing"),
    ],
)
def test_a_revision_with_another_meaning_or_of_no_version_revises_nothing(
    stored: StoredRule,
) -> None:
    assert chain([record(0, version(1)), record(1, stored)]) == chain([record(0, version(1))])


@pytest.mark.parametrize(
    ("changed", "makes"),
    [
        ({"for_": 2}, True),
        ({"condition": {"op": ">=", "value": "41"}}, True),
        ({"condition": {"op": ">=", "value": "40.00"}}, False),
        ({"clear": {"op": "<", "value": "40"}}, True),
        ({"unless": ["a", "b"]}, True),
        ({"title": "Many"}, False),
    ],
)
def test_a_version_is_made_by_what_a_rule_means(changed: dict[str, Any], makes: bool) -> None:
    assert (meaning_fields(rule(**changed)) != meaning_fields(rule())) is makes


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"stores": ["1", "2"]}, {"stores": ["2", "1"]}),
        ({"unless": ["a", "b"]}, {"unless": ["b", "a"]}),
        ({"clear": None}, {"clear": {"op": "<", "value": "40.0"}}),
        ({"for_": 1}, {}),
    ],
)
def test_the_same_in_other_words_is_no_change(one: dict[str, Any], other: dict[str, Any]) -> None:
    [newest] = chain([record(0, version(1, **one))])

    assert plan_rule(rule(**other), newest).change == "same"


def test_a_change_is_the_next_version_and_names_its_fields() -> None:
    [newest] = chain([record(0, version(1))])

    plan = plan_rule(rule(for_=3, stores=WEST, title="Many"), newest)

    assert (plan.change, plan.stored and plan.stored.key) == ("version", "many-visitors|2")
    assert [tuple(one) for one in plan.fields] == [
        ("stores", "all", WEST),
        ("for", 1, 3),
        ("title", "", "Many"),
    ]


def test_a_rule_is_retired_by_a_last_version_and_may_come_back() -> None:
    records = [record(0, version(1))]
    last = plan_retirement("many-visitors", read_history(records))
    records.append(record(1, last, NOW + WINDOW))

    retired = read_history(records)

    assert (last.key, retired.active_rules()) == ("many-visitors|2", {})
    assert [one.retired for one in retired.versions["many-visitors"]] == [False, True]
    back = plan_rule(rule(), retired.newest_version("many-visitors"))
    assert (back.change, back.stored and back.stored.key) == ("version", "many-visitors|3")


def test_what_is_not_in_force_or_is_waited_for_cannot_be_retired() -> None:
    chains: RuleHistory = read_history(
        record(offset, StoredRule(rule=one, version=1))
        for offset, one in enumerate([rule(rule_id="a"), rule(rule_id="b", unless=["a"])])
    )

    with pytest.raises(TallyError, match="no rule 'c' in force; there are a, b"):
        plan_retirement("c", chains)
    with pytest.raises(TallyError, match="b names a in `unless`; apply it without"):
        plan_retirement("a", chains)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (b"many-visitors|1", b"", "offset 3: "),
        (b"many-visitors|1", b"null", "offset 3: Expected `object`"),
        (b"other|1", version(1).value, "offset 3: its key is not many-visitors|1"),
        (b"many-visitors|2", version(1).value, "offset 3: its key is not many-visitors|1"),
        (b"\xff", version(1).value, "offset 3: its key is not many-visitors|1"),
    ],
)
def test_a_record_that_says_nothing_is_told_and_passed_over(
    key: bytes, value: bytes, said: str
) -> None:
    chains = read_history([RuleRecord(3, key, value, NOW), record(4, version(1))])

    [problem] = chains.problems
    assert problem.startswith(said)
    assert [one.version for one in chains.versions["many-visitors"]] == [1]


def test_a_record_of_a_metric_that_is_gone_is_still_a_version() -> None:
    old: Rule = rule()
    text = StoredRule(rule=old, version=1).value.replace(b'"visitors"', b'"gone"')

    [made] = chain([RuleRecord(0, b"many-visitors|1", text, THEN)])

    assert made.rule.metric == "gone"


def test_the_rule_of_a_record_is_as_the_schema_of_rules_says() -> None:
    schema = json.loads((FOLDER / "rules" / "rule.schema.json").read_text("utf-8"))
    validator = Draft202012Validator(schema)

    for kind in ("threshold", "baseline", "silence", "stock"):
        stored = StoredRule(rule=rule(kind), version=1)
        assert [*validator.iter_errors(json.loads(stored.value)["rule"])] == []
        assert [*validator.iter_errors(told(kind))] == []
    assert [*validator.iter_errors({**told(), "colour": 1})] != []
    assert [*validator.iter_errors({**told(), "for": 97})] != []
