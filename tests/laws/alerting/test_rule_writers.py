"""Writers of one rule: each is told whether its change holds, and it is true, in every order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alerting.rules.rule import Rule, RuleVersion, with_cosmetics
from alerting.rules.versions import RuleHistory, RuleRecord, StoredRule, plan_retirement, plan_rule
from tests.controls.alerts.blind_rule_writers import without_after
from tests.support.evaluation.simulating import read_history
from tests.unit.alerting.rules.rules import rule

RULE_ID = "many-visitors"
ARRIVED_MS = 1_795_687_620_000
# A change of meaning, two that say only how an alert is sent, one that changes nothing; None: the
# writer retires the rule.
WISHES: tuple[Rule | None, ...] = (
    rule(for_=2),
    rule(severity="critical"),
    rule(for_=3, title="Queue"),
    rule(),
    None,
)
Stamp = Callable[[StoredRule], StoredRule]


class Attempt(NamedTuple):
    """One change of one writer: what the writer had read, what it sent, and to which offset."""

    base: RuleVersion | None
    stored: StoredRule
    offset: int


@dataclass
class Topic:
    """The topic of rules in memory."""

    records: list[RuleRecord] = field(default_factory=list)

    def read(self, until: int | None = None) -> RuleHistory:
        return read_history(self.records[:until])

    def send(self, stored: StoredRule) -> int:
        offset = len(self.records)
        arrived = ARRIVED_MS + offset
        self.records.append(RuleRecord(offset, stored.key.encode(), stored.value, arrived))
        return offset


@dataclass
class Writer:
    """Reads the rules, then sends one change of what it has read; each of the two is a turn."""

    topic: Topic
    stamp: Stamp
    seen: RuleHistory | None = None

    def act(self, wish: Rule | None) -> Attempt | None:
        """The attempt that the turn has sent, None of a turn that reads."""
        if self.seen is None:
            self.seen = self.topic.read()
            return None
        seen, self.seen = self.seen, None
        base = seen.newest_version(RULE_ID)
        if wish is not None:
            stored = plan_rule(wish, base).stored
        else:
            stored = None if base is None or base.retired else plan_retirement(RULE_ID, seen)
        if stored is None:
            return None
        stored = self.stamp(stored)
        return Attempt(base, stored, self.topic.send(stored))


def as_planned(stored: StoredRule) -> StoredRule:
    return stored


def race(turns: Sequence[tuple[int, int]], stamp: Stamp = as_planned) -> int:
    """Number of attempts that were compared with what their writers are told.

    In: the turns, each a writer's number and the number of its wish.
    """
    topic = Topic()
    topic.send(stamp(StoredRule(rule=rule(), version=1)))
    writers = [Writer(topic, stamp) for _ in range(4)]
    attempts = [writers[writer].act(WISHES[wish]) for writer, wish in turns]
    sent = [attempt for attempt in attempts if attempt is not None]
    for attempt in sent:
        compare(topic, attempt)
    return len(sent)


def compare(topic: Topic, attempt: Attempt) -> None:
    """Assert that the answer to a writer is true of the topic."""
    base, stored, offset = attempt
    before = topic.read(offset)
    after = topic.read(offset + 1)
    newest = after.newest_version(RULE_ID)
    if before.is_effective(stored):
        # Somebody else has sent the same change: both are told that it holds.
        assert after.versions == before.versions
    elif after.is_effective(stored):
        assert before.newest_version(RULE_ID) == base
        assert newest is not None and base is not None
        is_revision = stored.revision > 1
        wished = with_cosmetics(base.rule, stored.rule) if is_revision else stored.rule
        assert newest.rule == wished
        assert newest.retired == stored.retired
    else:
        assert before.newest_version(RULE_ID) != base
        assert after.versions == before.versions


# Both read version 1; one moves the threshold, the other only says more about how it is sent.
BOTH_READ = [(0, 0), (1, 1), (0, 1), (1, 0)]
turns = st.lists(st.tuples(st.integers(0, 3), st.integers(0, len(WISHES) - 1)), max_size=40)


@given(turns)
@example(BOTH_READ)
@example(BOTH_READ[:2] + BOTH_READ[:1:-1])
def test_each_writer_is_told_the_truth_in_every_order(turns: list[tuple[int, int]]) -> None:
    assert race(turns) <= len(turns)


def test_two_changes_of_one_version_are_compared_and_one_is_lost() -> None:
    assert race(BOTH_READ) == 2


@pytest.mark.parametrize("order", [BOTH_READ, BOTH_READ[:2] + BOTH_READ[:1:-1]])
def test_a_writer_that_does_not_say_what_it_follows_is_found(order: list[tuple[int, int]]) -> None:
    with pytest.raises(AssertionError):
        race(order, without_after)


@given(st.permutations(range(4)))
def test_records_without_after_are_read_as_before(order: list[int]) -> None:
    written = [
        StoredRule(rule=rule(), version=1),
        StoredRule(rule=rule(for_=2), version=2),
        StoredRule(rule=rule(severity="critical"), version=1, revision=2),
        StoredRule(rule=rule(for_=2, title="Queue"), version=2, revision=2),
    ]
    topic = Topic()
    for number in order:
        topic.send(written[number])

    chain = topic.read().versions[RULE_ID]

    assert [(version.version, version.revision) for version in chain] == [(1, 2), (2, 2)]
    assert (chain[0].rule.severity, chain[1].rule.title) == ("critical", "Queue")
    assert all(topic.read().is_effective(stored) for stored in written)


def test_a_change_follows_records_without_after() -> None:
    topic = Topic()
    topic.send(StoredRule(rule=rule(), version=1))
    topic.send(StoredRule(rule=rule(for_=2), version=1, revision=2))

    stored = plan_rule(rule(severity="critical"), topic.read().newest_version(RULE_ID)).stored

    # The record before it revises nothing, for it has another meaning: its key blocks no writer.
    assert stored is not None and stored.key == "many-visitors|1|2"
    topic.send(stored)
    assert topic.read().is_effective(stored)
