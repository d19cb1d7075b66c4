"""What the dispatcher knows of rules and stores, and what it does where nobody tells it."""

from collections.abc import Mapping
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from confluent_kafka import KafkaException

from alerting.deliver import facts
from alerting.deliver.facts import CachedRules, RegisteredStores
from alerting.rules.rule import Rule, RuleVersion, Threshold
from alerting.rules.versions import RuleHistory
from runtime.registry.stores import parse_stores
from tally.errors import StackError, TransactionAborted
from tests.unit.architecture.counts.sources import ROOT

STORES = b"""
a1: {groups: [west, large], tz: America/Lima}
a2: {groups: [west], changes: {2026-01-01: {groups: [east]}}}
a3: {groups: [east]}
"""


def version(number: int, *channels: str) -> RuleVersion:
    rule = Rule(
        rule_id="r", kind="threshold", condition=Threshold(">=", Decimal(1)), channels=channels
    )
    return RuleVersion(rule=rule, version=number, effective_from=0)


class Topic:
    """Versions by the offset of their record; `wrong`: what brokers answer instead."""

    def __init__(self, *versions: RuleVersion) -> None:
        self.versions = [*versions]
        self.reads: list[int] = []
        self.wrong: Exception | None = None

    def end(self) -> int:
        if self.wrong:
            raise self.wrong
        return len(self.versions)

    def read(self, until: int | None = None) -> RuleHistory:
        self.reads.append(until or 0)
        # The last of a number, as revisions have it.
        newest: Mapping[int, RuleVersion] = {one.version: one for one in self.versions[:until]}
        return RuleHistory({"r": tuple(newest.values())} if newest else {}, {})


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "_RETRY_SECONDS", 0.0)


def test_a_rule_names_its_channels_in_the_version_by_which_the_alert_was_evaluated() -> None:
    topic = Topic(version(1, "floor"), version(2, "tills"))
    known = CachedRules(topic)

    found = [known("r", number) for number in (1, 2, 1)]

    assert found == [("floor",), ("tills",), ("floor",)]
    assert topic.reads == [2]


def test_another_wording_holds_as_soon_as_a_tick_tells_of_it() -> None:
    topic = Topic(version(1, "floor"))
    known = CachedRules(topic)
    assert known("r", 1) == ("floor",)

    topic.versions.append(version(1, "tills"))
    before = known("r", 1)
    known.require_until(2)

    assert (before, known("r", 1)) == (("floor",), ("tills",))


def test_an_alert_of_a_version_that_no_tick_has_told_of_yet_finds_its_rule() -> None:
    topic = Topic(version(1, "floor"))
    known = CachedRules(topic)
    known("r", 1)

    topic.versions.append(version(2, "tills"))

    assert known("r", 2) == ("tills",)


def test_a_rule_that_nobody_knows_is_looked_for_once_until_there_are_others() -> None:
    topic = Topic(version(1, "floor"))
    known = CachedRules(topic)

    assert [known("gone", 1) for _ in range(3)] == [()] * 3
    assert topic.reads == [1]
    topic.versions.append(version(2, "tills"))
    for _ in range(3):
        # Further than the topic comes: it was made anew.
        known.require_until(100)
        assert known("gone", 1) == ()
    assert topic.reads == [1, 2]


def test_another_version_is_not_that_by_which_the_alert_was_evaluated() -> None:
    known = CachedRules(Topic(version(2, "tills")))

    assert [known("r", number) for number in (1, 3)] == [()] * 2


@pytest.mark.parametrize("wrong", [StackError("away"), KafkaException("away")])
def test_while_brokers_tell_no_rules_what_is_known_holds_and_nobody_is_forgotten(
    wrong: Exception,
) -> None:
    topic = Topic(version(1, "floor"))
    known = CachedRules(topic)
    known("r", 1)
    topic.wrong = wrong
    known.require_until(2)

    assert known("r", 1) == ("floor",)
    with pytest.raises(TransactionAborted):
        known("r", 2)
    topic.wrong = None
    topic.versions.append(version(2, "tills"))
    assert known("r", 2) == ("tills",)


def test_stores_have_the_zone_and_the_groups_of_today_and_others_the_default() -> None:
    entries = parse_stores(STORES, ROOT / "stores.yaml")
    around = RegisteredStores(entries, "Europe/Rome", lambda _rule_id, _version: ())

    found = [around.store(one) for one in ("a1", "a2", "nobody")]

    assert [one.zone for one in found] == [
        ZoneInfo("America/Lima"),
        ZoneInfo("Europe/Rome"),
        ZoneInfo("Europe/Rome"),
    ]
    assert [one.regions for one in found] == [("west", "large"), ("east",), ()]
