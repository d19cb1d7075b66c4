"""What the dispatcher knows of rules and stores, and what it does where nobody tells it."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from confluent_kafka import KafkaException

from alerting.deliver import rule_facts
from alerting.deliver.engine.groups import EVERYWHERE
from alerting.deliver.facts import RegisteredStores, unknown_rule
from alerting.deliver.peers import CACHE_SECONDS, FamilyStoreCache
from alerting.deliver.rule_facts import CachedRules
from alerting.deliver.state.routing import RuleFacts
from alerting.rules.rule import Rule, RuleVersion, Threshold
from alerting.rules.versions import RuleHistory
from runtime.registry.stores import parse_stores
from serving.storage.rows import Activity
from tally.errors import StackError, TransactionAborted, ViewsUnreachable
from tally.events.identity import partition_number
from tests.support.serving.serving_example import example
from tests.support.serving.serving_world import MemoryViews
from tests.unit.architecture.counts.sources import ROOT

FAMILY = "traffic"
STORES = b"""
a1: {groups: [west, large], tz: America/Lima}
a2: {groups: [west], changes: {2026-01-01: {groups: [east]}}}
a3: {groups: [east]}
"""


def version(number: int, *channels: str, kind: Any = "threshold") -> RuleVersion:
    rule = Rule(rule_id="r", kind=kind, condition=Threshold(">=", Decimal(1)), channels=channels)
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
    monkeypatch.setattr(rule_facts, "_RETRY_SECONDS", 0.0)


def test_a_rule_names_its_channels_in_the_version_by_which_the_alert_was_judged() -> None:
    topic = Topic(version(1, "floor"), version(2, "tills", kind="silence"))
    known = CachedRules(topic)

    found = [known("r", number) for number in (1, 2, 1)]

    assert found == [
        RuleFacts("threshold", ("floor",)),
        RuleFacts("silence", ("tills",)),
        RuleFacts("threshold", ("floor",)),
    ]
    assert topic.reads == [2]


def test_another_wording_holds_as_soon_as_a_tick_tells_of_it() -> None:
    topic = Topic(version(1, "floor"))
    known = CachedRules(topic)
    assert known("r", 1).channels == ("floor",)

    topic.versions.append(version(1, "tills"))
    before = known("r", 1).channels
    known.require_until(2)

    assert (before, known("r", 1).channels) == (("floor",), ("tills",))


def test_an_alert_of_a_version_that_no_tick_has_told_of_yet_finds_its_rule() -> None:
    topic = Topic(version(1, "floor"))
    known = CachedRules(topic)
    known("r", 1)

    topic.versions.append(version(2, "tills"))

    assert known("r", 2).channels == ("tills",)


def test_a_rule_that_nobody_knows_is_looked_for_once_until_there_are_others() -> None:
    topic = Topic(version(1, "floor"))
    known = CachedRules(topic)

    assert [known("gone", 1) for _ in range(3)] == [RuleFacts("", ())] * 3
    assert topic.reads == [1]
    topic.versions.append(version(2, "tills"))
    for _ in range(3):
        # Further than the topic comes: it was made anew.
        known.require_until(100)
        assert known("gone", 1) == RuleFacts("", ())
    assert topic.reads == [1, 2]


def test_another_version_is_not_that_by_which_the_alert_was_judged() -> None:
    known = CachedRules(Topic(version(2, "tills")))

    assert [known("r", number) for number in (1, 3)] == [RuleFacts("", ())] * 2


@pytest.mark.parametrize("wrong", [StackError("away"), KafkaException("away")])
def test_while_brokers_tell_no_rules_what_is_known_holds_and_nobody_is_forgotten(
    wrong: Exception,
) -> None:
    topic = Topic(version(1, "floor"))
    known = CachedRules(topic)
    known("r", 1)
    topic.wrong = wrong
    known.require_until(2)

    assert known("r", 1).channels == ("floor",)
    with pytest.raises(TransactionAborted):
        known("r", 2)
    topic.wrong = None
    topic.versions.append(version(2, "tills"))
    assert known("r", 2).channels == ("tills",)


def stores_by(found: Mapping[str, list[str]]) -> RegisteredStores:
    entries = parse_stores(STORES, ROOT / "stores.yaml")
    return RegisteredStores(entries, "Europe/Rome", unknown_rule, lambda name, _: found[name])


def test_stores_have_the_zone_and_the_groups_of_today_and_others_the_default() -> None:
    around = stores_by({})

    found = [around.store(one) for one in ("a1", "a2", "nobody")]

    assert [one.zone for one in found] == [
        ZoneInfo("America/Lima"),
        ZoneInfo("Europe/Rome"),
        ZoneInfo("Europe/Rome"),
    ]
    assert [one.regions for one in found] == [("west", "large"), ("east",), ()]


def test_peers_are_the_stores_of_a_region_that_send_the_family() -> None:
    around = stores_by({FAMILY: ["a1", "a3", "nobody"]})

    found = {name: around.count_peers(FAMILY, name, (0,)) for name in ("west", "east", EVERYWHERE)}

    assert found == {"west": 1, "east": 1, EVERYWHERE: 3}
    assert around.rule("r", 1) == RuleFacts("", ())


class Views(MemoryViews):
    """Stores of one family, read so often."""

    def __init__(self, *stores: str) -> None:
        super().__init__(example())
        self.stores, self.asked, self.is_away = stores, 0, False

    async def active_stores(self, family: Any) -> list[Activity]:
        self.asked += 1
        if self.is_away:
            raise ViewsUnreachable("away")
        day = date(2026, 11, 26)
        return [Activity(one, day, day) for one in self.stores if family.name == FAMILY]


def test_the_stores_of_a_family_are_read_now_and_then_and_kept_while_nobody_answers() -> None:
    views, clock = Views("a", "b", "c", "d"), [0.0]
    known = FamilyStoreCache(views, 4, lambda: clock[0])
    mine = [one for one in "abcd" if partition_number(one, 4) in (0, 1)]

    assert sorted(known.find_stores(FAMILY, (0, 1))) == mine
    assert sorted(known.find_stores(FAMILY, range(4))) == [*"abcd"]
    assert (known.find_stores("nothing", range(4)), views.asked) == ([], 1)
    clock[0], views.is_away = CACHE_SECONDS, True
    assert sorted(known.find_stores(FAMILY, range(4))) == [*"abcd"]
    assert (len(known.find_stores(FAMILY, range(4))), views.asked) == (4, 2)
    clock[0], views.is_away, views.stores = 2 * CACHE_SECONDS, False, ("a",)
    assert known.find_stores(FAMILY, range(4)) == ["a"]
    known.close()


def test_of_a_family_that_nobody_has_ever_told_of_there_are_no_stores() -> None:
    views = Views("a")
    views.is_away = True
    known = FamilyStoreCache(views, 4, lambda: 0.0)

    assert (known.find_stores(FAMILY, range(4)), known.find_stores(FAMILY, range(4))) == ([], [])
    assert views.asked == 1
    known.close()
