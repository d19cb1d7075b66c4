"""A rule's text as somebody edits it: read, placed by line, compared with what holds, applied."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alerting.queries.known_rules import (
    MAX_TEXT_BYTES,
    RuleDraft,
    RuleEditService,
    RuleRepository,
    check_draft,
)
from alerting.rules.rule import ClockHours, InGroup, Rule, RuleVersion, rule_to_fields
from alerting.rules.rule_file import dump_rule_yaml, parse_rule_yaml
from alerting.rules.versions import RuleHistory, StoredRule
from runtime.registry.strict_yaml import find_yaml_lines
from tally.errors import RuleConflict, StackError, UnknownName, ViewsUnreachable
from tests.controls.alerts.blind_rule_editing import BlindRuleEditing
from tests.support.evaluation.evaluating import BUSY, DAY, SILENT, ListedRules, in_force
from tests.support.evaluation.simulating import AwayRules, WrittenRules
from tests.unit.alerting.rules.rules import CATALOGUE, GOOD, rule

NOTHING = RuleHistory({}, {})
EXAMPLE = Path("schemas/rules/example.yaml")
HOURS = (ClockHours(days="mon-fri", from_="08:00", to="20:00"),)
HARD: dict[str, Any] = {
    "title": "yes: no # \"'<b>&",
    "owner": "null",
    "stores": ("0367", "1e3", "no"),
    "channels": ("on",),
    "minimum": {"visitors": 20},
    "unless": ("door-silent",),
    "within": HOURS,
    "for_": 96,
    "backfill": True,
    "severity": "critical",
}


@pytest.mark.parametrize("kind", GOOD)
def test_the_text_of_a_rule_is_read_as_the_rule(kind: str) -> None:
    one = rule(kind)

    assert rule_to_fields(_again(one)) == rule_to_fields(one)


def test_a_stock_rule_that_is_not_eager_comes_through_the_text() -> None:
    one = rule("stock", evaluate="close")

    assert _again(one) == one


@pytest.mark.parametrize("name", HARD)
def test_hostile_values_come_through_the_text(name: str) -> None:
    one = replace(rule(), **{name: HARD[name]})

    assert rule_to_fields(_again(one)) == rule_to_fields(one)


def test_smallest_number_of_deviations_comes_through() -> None:
    told = {"baseline": "hour_of_week", "sigmas": "0.000001"}
    one = rule("baseline", condition=told, stores={"region": "west"})

    assert one.stores == InGroup(region="west")
    assert _again(one) == one


def test_example_is_written_as_people_write_it() -> None:
    text = dump_rule_yaml(parse_rule_yaml(EXAMPLE.read_bytes()))

    assert "stores: {region: west}\n" in text and "for: 2\n" in text
    # Defaults are left out.
    assert "evaluate" not in text and "severity" not in text


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("rule_id: x\nmetric: units\ncondition: {op: '>', value: x}\ncolour: red", [3, 4]),
        ("rule_id: x\nmetric: units\ncondition:\n  op: '>'\n  value: x", [5]),
        ("rule_id: x\nmetric: units\nchannels: [a, '']\ncondition: {op: '>', value: 1}", [3]),
        ("rule_id: x\n  a: b", [2]),
        ("rule_id: x\nfor: 1\nfor: 2", [3]),
        ("metric: nothing\nrule_id: x\ncondition: {op: '>', value: 1}", [1]),
        ("rule_id: x\nmetric: units\ncondition: {op: '>', value: 1}\nunless: [gone]", [4]),
        ("kind: baseline\nrule_id: x\nmetric: units", [None]),
        ("metric: units\ncondition: {op: '>', value: 1}", [None]),
        ("", [None]),
        ("rule_id: \ud800", [None]),
    ],
)
def test_each_problem_is_told_at_its_line(text: str, lines: list[int | None]) -> None:
    draft = check_draft(text, None, NOTHING)

    assert (draft.rule, [one.line for one in draft.problems]) == (None, lines)


def test_what_is_not_evaluated_is_refused_at_its_line() -> None:
    text = dump_rule_yaml(replace(BUSY, backfill=True))
    draft = check_draft(text, None, NOTHING)

    line = 1 + text.splitlines().index("backfill: true")
    assert [one.line for one in draft.problems] == [line]
    assert draft.problems[0].text.startswith("backfill: ")


def test_text_that_is_too_large_is_told_and_not_read() -> None:
    draft = check_draft("a: [" * MAX_TEXT_BYTES, None, NOTHING)

    assert len(draft.problems) == 1
    assert "`tally rules apply FILE` takes larger ones" in draft.problems[0].text


@pytest.mark.parametrize(
    ("rule_id", "told"), [("silent", "it is silent that is edited"), (None, "there is a rule busy")]
)
def test_another_rule_than_is_edited_is_refused(rule_id: str | None, told: str) -> None:
    draft = check_draft(dump_rule_yaml(BUSY), rule_id, _topic().read())

    assert [(one.line, told in one.text) for one in draft.problems] == [(1, True)]


def test_what_it_changes_is_told_against_the_newest_version() -> None:
    draft = _checked(dump_rule_yaml(replace(BUSY, for_=3, title="Busy")))

    assert draft.plan is not None and draft.plan.change == "version"
    assert [one.field for one in draft.plan.fields] == ["for", "title"]


def test_applying_makes_the_next_version() -> None:
    topic = _topic()
    editing = RuleEditService(RuleRepository(topic, topic.write))

    made = asyncio.run(_applied(editing, replace(BUSY, for_=3)))

    assert (made.version, made.rule.for_) == (2, 3)
    assert topic.read().newest_version("busy") == made


def test_what_means_the_same_writes_nothing() -> None:
    topic = _topic()
    before = topic.read()

    made = asyncio.run(_applied(RuleEditService(RuleRepository(topic, topic.write)), BUSY))

    assert (made, topic.read()) == (before.newest_version("busy"), before)


def test_who_has_not_seen_what_holds_applies_nothing() -> None:
    topic = _topic()
    editing = RuleEditService(RuleRepository(topic, topic.write))
    base = topic.read().newest_version("busy")
    asyncio.run(editing.apply(replace(BUSY, for_=3), base))

    with pytest.raises(RuleConflict, match="Nothing of yours was applied"):
        asyncio.run(editing.apply(replace(BUSY, for_=4), base))

    newest = topic.read().newest_version("busy")
    assert newest is not None and (newest.version, newest.rule.for_) == (2, 3)


def test_negative_control_who_compares_with_now_undoes_what_he_has_not_seen() -> None:
    topic = _topic()
    blind = BlindRuleEditing(RuleRepository(topic, topic.write))
    base = topic.read().newest_version("busy")
    asyncio.run(blind.apply(replace(BUSY, for_=3), base))

    made = asyncio.run(blind.apply(replace(BUSY, for_=4), base))

    assert (made.version, made.rule.for_) == (3, 4)


def test_a_title_that_somebody_else_changed_is_seen_too() -> None:
    topic = _topic()
    editing = RuleEditService(RuleRepository(topic, topic.write))
    base = topic.read().newest_version("busy")
    asyncio.run(editing.apply(replace(BUSY, title="Theirs"), base))

    with pytest.raises(RuleConflict):
        asyncio.run(editing.apply(replace(BUSY, title="Mine"), base))


def test_two_in_one_moment_are_parted_by_the_topic() -> None:
    topic = _topic()
    stale = ListedRules(in_force(BUSY, f"{DAY}T08:00"))
    base = stale.read().newest_version("busy")
    topic.write([StoredRule(rule=replace(BUSY, for_=3), version=2)])
    # He read before the other one wrote, and writes after that.
    late = RuleEditService(RuleRepository(stale, topic.write))

    with pytest.raises(RuleConflict, match="then apply again"):
        asyncio.run(late.apply(replace(BUSY, for_=4), base))


@pytest.mark.parametrize("known", [RuleRepository(AwayRules()), RuleRepository(ListedRules())])
def test_without_a_topic_it_is_said(known: RuleRepository) -> None:
    with pytest.raises(ViewsUnreachable):
        asyncio.run(RuleEditService(known).apply(BUSY, None))


def test_a_writer_that_is_away_is_no_conflict() -> None:
    def away(_: Sequence[StoredRule]) -> list[RuleVersion]:
        raise StackError("planted")

    editing = RuleEditService(RuleRepository(ListedRules(), away))
    with pytest.raises(ViewsUnreachable, match="cannot be written"):
        asyncio.run(editing.apply(BUSY, None))


def test_a_rule_that_nobody_knows_is_not_opened() -> None:
    with pytest.raises(UnknownName):
        asyncio.run(RuleEditService(RuleRepository(_topic())).load("nobody"))


def test_lines_are_of_fields_and_of_those_inside() -> None:
    assert find_yaml_lines(b"a: 1\nb:\n  c: {d: 1}\n- x") == {}
    assert find_yaml_lines(b"a: 1\nb:\n  c: {d: 1}\n") == {"a": 1, "b": 2, "b.c": 3}
    assert (
        find_yaml_lines(b"[1]") == find_yaml_lines(b"\xff") == find_yaml_lines(b"[" * 5_000) == {}
    )


def _again(one: Rule) -> Rule:
    return parse_rule_yaml(dump_rule_yaml(one), CATALOGUE)


def _topic() -> WrittenRules:
    return WrittenRules(in_force(BUSY, f"{DAY}T08:00"), in_force(SILENT, f"{DAY}T08:00"))


def _checked(text: str) -> RuleDraft:
    return asyncio.run(RuleEditService(RuleRepository(_topic())).check(text, "busy"))


async def _applied(editing: RuleEditService, one: Rule) -> RuleVersion:
    return await editing.apply(one, (await editing.load(one.rule_id)).newest)


def test_hours_of_a_rule_are_read_as_those_of_a_store() -> None:
    night = ClockHours("fri-mon", "22:00", "02:00")

    assert night.weekdays == (4, 5, 6, 0)
    assert night.span == (22 * 60, 26 * 60)
    assert ClockHours("mon", "08:00", "24:00").span == (480, 1440)
