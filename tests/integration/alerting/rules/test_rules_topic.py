"""Rules in the real topic: of two writers one is told, and everybody reads the same."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import NewTopic

from alerting.rules.rule import Rule, RuleVersion, version_at
from alerting.rules.topic import RuleReader, write_rules
from alerting.rules.versions import StoredRule, effective_from, plan_retirement, plan_rule
from ops.provision import topic_configuration
from runtime.connect import kafka_admin
from tally.config.settings import Settings
from tally.errors import RuleConflict, StackError
from tests.controls.alerts.compacted_rules import compacted_configuration
from tests.integration.ingest.conftest import wait_until
from tests.support.clients.producers import connected_producer
from tests.support.stack.nominal_processor import slowness
from tests.unit.alerting.rules.rules import rule

WINDOW = 900_000
RULES, AIM_SECONDS = 10_000, 10.0


@contextmanager
def rules_topic(settings: Settings, configuration: Mapping[str, str]) -> Iterator[str]:
    """Name of a new topic of one partition, gone after the block."""
    name, admin = f"test-{uuid4().hex}", kafka_admin(settings)
    asked = NewTopic(name, 1, 1, config=dict(configuration))
    admin.create_topics([asked])[name].result(30)
    yield name
    admin.delete_topics([name])[name].result(30)


@pytest.fixture
def topic(kafka: str, settings: Settings) -> Iterator[str]:
    """A topic as the one of rules is, empty."""
    with rules_topic(settings, topic_configuration("chronicle", settings)) as name:
        yield name


@pytest.fixture
def apply(topic: str, settings: Settings) -> Callable[[Rule], RuleVersion]:
    """Writes what a rule changes; the version that holds then."""

    def write(changed: Rule) -> RuleVersion:
        newest = RuleReader(settings, topic).read().newest_version(changed.rule_id)
        stored = plan_rule(changed, newest).stored
        assert stored is not None
        [version] = write_rules(settings, [stored], topic)
        return version

    return write


def send(settings: Settings, topic: str, stored: StoredRule, **options: Any) -> None:
    producer = connected_producer(settings)
    producer.produce(topic, stored.value, stored.key.encode(), **options)
    assert producer.flush(30) == 0


def test_an_edit_holds_from_a_window_that_had_not_begun_and_older_ones_keep_their_rule(
    topic: str, settings: Settings, apply: Callable[[Rule], RuleVersion]
) -> None:
    before = int(time.time() * 1000)
    first, second = apply(rule()), apply(rule(for_=3))

    chain = RuleReader(settings, topic).read().versions["many-visitors"]

    assert chain == (first, second)
    # The broker runs on this machine.
    assert effective_from(before) <= first.effective_from <= second.effective_from
    assert second.effective_from <= effective_from(int(time.time() * 1000))
    assert version_at(chain, first.effective_from - WINDOW) is None
    assert version_at(chain, second.effective_from) == second


def test_what_says_how_it_is_told_holds_at_once_and_begins_nothing_anew(
    apply: Callable[[Rule], RuleVersion],
) -> None:
    first = apply(rule())

    told = apply(rule(severity="critical"))

    assert (told.version, told.revision, told.rule.severity) == (1, 2, "critical")
    assert told.effective_from == first.effective_from


def test_of_two_writers_of_one_version_one_is_told_and_the_other_holds(
    topic: str, settings: Settings
) -> None:
    for number in range(1, 6):
        ready = Barrier(2)

        def write(runs: int, number: int = number, ready: Barrier = ready) -> int | None:
            stored = StoredRule(rule=rule(for_=runs), version=number)
            ready.wait(600)
            try:
                [version] = write_rules(settings, [stored], topic)
            except RuleConflict as conflict:
                assert conflict.lost == ("many-visitors",)
                assert "another version was written meanwhile" in str(conflict)
                return None
            return version.rule.for_

        with ThreadPoolExecutor(2) as both:
            outcomes = [*both.map(write, (10 + number, 20 + number))]

        holds = RuleReader(settings, topic).read().newest_version("many-visitors")
        assert holds is not None and holds.version == number
        assert sorted(outcomes, key=lambda one: one or 0) == [None, holds.rule.for_]


def test_the_same_content_from_two_writers_is_no_conflict(topic: str, settings: Settings) -> None:
    stored = StoredRule(rule=rule(), version=1)

    first, second = (write_rules(settings, [stored], topic) for _ in range(2))

    assert first == second


def test_a_revision_of_a_version_that_is_not_the_newest_any_more_is_a_conflict(
    topic: str, settings: Settings, apply: Callable[[Rule], RuleVersion]
) -> None:
    late = plan_rule(rule(title="Late"), apply(rule())).stored
    apply(rule(for_=2))

    assert late is not None
    with pytest.raises(RuleConflict):
        write_rules(settings, [late], topic)


def test_of_several_rules_the_others_are_stored_beside_a_lost_one(
    topic: str, settings: Settings, apply: Callable[[Rule], RuleVersion]
) -> None:
    apply(rule())
    mine = StoredRule(rule=rule(for_=9), version=1)

    with pytest.raises(RuleConflict, match="rules: many-visitors: "):
        write_rules(settings, [mine, StoredRule(rule=rule("silence"), version=1)], topic)

    found = RuleReader(settings, topic).read().active_rules()
    assert (found["many-visitors"].for_, "door-silent" in found) == (1, True)


@pytest.mark.parametrize("claimed_ms", [1, 1_490_489_999_999, 4_000_000_000_000])
def test_a_record_that_claims_another_time_begins_by_the_brokers_clock(
    topic: str, settings: Settings, claimed_ms: int
) -> None:
    before = int(time.time() * 1000)

    send(settings, topic, StoredRule(rule=rule(), version=1), timestamp=claimed_ms)

    [version] = RuleReader(settings, topic).read().versions["many-visitors"]
    after = int(time.time() * 1000)
    assert effective_from(before) <= version.effective_from <= effective_from(after)


def test_a_topic_with_the_writers_own_time_is_refused(kafka: str, settings: Settings) -> None:
    with rules_topic(settings, {"message.timestamp.type": "CreateTime"}) as topic:
        send(settings, topic, StoredRule(rule=rule(), version=1), timestamp=1)

        with pytest.raises(StackError, match="has not the brokers' time in its records"):
            RuleReader(settings, topic).read()


def test_a_retired_rule_calls_for_nothing_and_its_history_stays(
    topic: str, settings: Settings, apply: Callable[[Rule], RuleVersion]
) -> None:
    apply(rule())
    reader = RuleReader(settings, topic)

    [last] = write_rules(settings, [plan_retirement("many-visitors", reader.read())], topic)

    chains = reader.read()
    assert (last.retired, last.version, chains.active_rules()) == (True, 2, {})
    assert [one.version for one in chains.versions["many-visitors"]] == [1, 2]
    assert apply(rule()).version == 3


def test_everybody_who_reads_to_one_offset_has_the_same_rules_whatever_comes_later(
    topic: str, settings: Settings, apply: Callable[[Rule], RuleVersion]
) -> None:
    reader = RuleReader(settings, topic)
    apply(rule())
    send(settings, topic, StoredRule(rule=rule("silence"), version=1))
    barrier = reader.end()
    at_the_barrier = reader.read(barrier)

    apply(rule(for_=5))

    assert barrier == 2
    assert RuleReader(settings, topic).read(barrier) == at_the_barrier
    assert [len(one) for one in reader.read().versions.values()] == [2, 1]
    assert reader.read(barrier) == at_the_barrier and reader.read(0).versions == {}


def test_what_is_no_rule_stops_nobody(
    topic: str, settings: Settings, apply: Callable[[Rule], RuleVersion]
) -> None:
    producer = connected_producer(settings)
    for key, value in ((None, b"{"), (b"many-visitors|1", None), (b"\xff", b"\xff" * 10_000)):
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0

    assert apply(rule()).version == 1
    assert len(RuleReader(settings, topic).read().problems) == 3


def test_ten_thousand_rules_are_read_back_in_time(
    topic: str, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    stores = [str(one) for one in range(457)]
    rules = [
        rule(rule_id=f"r-{one}", stores=stores if one % 100 == 0 else "all") for one in range(RULES)
    ]
    write_rules(settings, [StoredRule(rule=one, version=1) for one in rules], topic)

    begun = time.process_time()
    chains = RuleReader(settings, topic).read()
    seconds = time.process_time() - begun

    with capsys.disabled():
        print(f"\n{RULES:,} rules read back in {seconds:.1f} s of processor time")
    assert (len(chains.versions), chains.active_rules()["r-9999"]) == (RULES, rules[-1])
    assert seconds < AIM_SECONDS * slowness()


def test_the_first_record_holds_for_good_and_in_a_compacted_topic_the_loser_takes_over(
    topic: str, settings: Settings
) -> None:
    own = settings.model_copy(update={"keyspace": "test_rules"})
    others = iter(range(1, 100_000))

    def holds(name: str) -> int:
        return RuleReader(settings, name).read().versions["many-visitors"][0].rule.for_

    with rules_topic(settings, compacted_configuration(own)) as compacted:

        def is_lost() -> bool:
            # Of the file that is written to nothing is cleaned: others have to follow.
            for name in (topic, compacted):
                send(settings, name, StoredRule(rule=rule("silence"), version=next(others)))
            return holds(compacted) == 3

        for name in (topic, compacted):
            for runs in (2, 3):
                send(settings, name, StoredRule(rule=rule(for_=runs), version=1))
        assert (holds(topic), holds(compacted)) == (2, 2)
        wait_until(is_lost, 600)

        assert holds(topic) == 2
