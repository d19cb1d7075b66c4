"""The evaluator as a process on a broker of its own, over rows in the real tables: what it tells,
and that whatever kills it, each state of each alert is told once."""

import math
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import MappingProxyType

import pytest

from alerting.alert.resolution import AlertResolution, write_resolution
from alerting.health.watch import AlertFacts, AlertWatch, build_fact_gauges
from alerting.rules.topic import write_rules
from alerting.rules.versions import StoredRule
from ops.local.processes.service import Site
from runtime.connect import cassandra_session
from runtime.kafka.reader import read_to_end
from runtime.process.job import DONE, FAILED
from runtime.processor.delivery import FAILPOINTS
from tally.alerts.message import Alert, decode_alert
from tests.integration.alerting.evaluate.quarters import RULES, Quarters, last_states
from tests.integration.ingest.conftest import KILLED, Start, stop, wait_until

EVALUATOR, CRASHING = "alerting.evaluate", "tests.controls.processes.crashing_evaluator"
SPEED = {
    "367": (7, 1, 3, 6, 0, 0, 8, 8),
    "406": (1, 1, 1, 9, 9, 1, 1, 1),
    "500": (3, 3, 0, 3, 3, 3, 3, 0),
}
BATCH = {
    "367": (7, 1, 3, 4, 0, 0, 8, 8),
    "406": (1, 1, 1, 9, 9, 1, 6, 1),
    "500": (3, 3, 1, 3, 3, 3, 3, 0),
}
MAX_SECONDS = 600
# Each of them, many times and in two slots: tests/chaos/alerts/test_alert_kills.py.
EACH = [f"{name}:2" for name in FAILPOINTS]
SOME = [f"{name}:2" for name in FAILPOINTS[-3:]]


@pytest.fixture
def night(broker: Site) -> Iterator[Quarters]:
    """The quarter hours from the first on that the rules evaluate."""
    versions = write_rules(broker.settings, [StoredRule(rule=one, version=1) for one in RULES])
    first = max(one.effective_from for one in versions)
    with cassandra_session(broker.settings) as session:
        yield Quarters(broker.settings, session, first, dict(SPEED), dict(BATCH))


def told(night: Quarters) -> list[Alert]:
    """Every committed message of the topic, each partition in its order."""
    return [decode_alert(one.value() or b"") for one in read_to_end(night.settings, ["alerts"])]


def each_once(night: Quarters) -> bool:
    """Whether no state of an alert has come twice."""
    return set(Counter((one.alert_id, one.state) for one in told(night)).values()) <= {1}


@contextmanager
def running(begin: Start, night: Quarters) -> Iterator[None]:
    """An evaluator works within the block, and ends as it is told to."""
    process = started(begin, night)
    yield
    assert stop(process) == 0


def started(
    begin: Start, night: Quarters, slot: int = 0, more: Mapping[str, str] = MappingProxyType({})
) -> "subprocess.Popen[str]":
    """An evaluator that has its partitions; `more`: variables."""
    ready = night.settings.home / f"evaluator-{slot}.ready"
    ready.unlink(missing_ok=True)
    process = begin(EVALUATOR, TALLY_READY_FILE=str(ready), TALLY_EVALUATOR_SLOT=str(slot), **more)
    wait_until(lambda: ready.exists() or process.poll() is not None, MAX_SECONDS)
    return process


def of_store(night: Quarters, store: str) -> list[tuple[str, str, str, int]]:
    """Rule, edge, state and window of each message of a store, in order."""
    found = ((one, last_states(night, [one])) for one in told(night) if one.store_id == store)
    return [(one.rule_id, one.edge, one.state, place.window) for one, [place] in found]


def test_alert_that_is_resolved_ends_and_stays_ended_for_who_comes_next(
    begin: Start, night: Quarters
) -> None:
    store = "406"
    with running(begin, night):
        for number in range(4):
            night.sell(number)
        night.tick(4)
        wait_until(lambda: ("busy", "raise", "provisional", 3) in of_store(night, store))
        [raised] = [one for one in told(night) if (one.store_id, one.rule_id) == (store, "busy")]
        at = night.window(4)
        write_resolution(
            night.settings, AlertResolution.from_alert(raised, at, "ann", "a school class")
        )
        wait_until(lambda: ("busy", "clear", "provisional", 4) in of_store(night, store))
    reasons = [one.reason for one in told(night) if one.edge == "clear" and one.store_id == store]
    assert reasons == ["resolved"]
    with running(begin, night):
        # As busy as before, and not told again.
        night.sell(4)
        night.tick(5)
        wait_until(lambda: ("silent", "raise", "provisional", 4) in of_store(night, "367"))
    assert [edge for _, edge, _, _ in of_store(night, store)] == ["raise", "clear"]
    assert each_once(night)


def test_speed_rows_raise_a_generation_confirms_a_later_one_takes_back_and_one_more_tells_again(
    begin: Start, night: Quarters
) -> None:
    store = "367"
    with running(begin, night):
        night.sell(0)
        night.tick(1)
        wait_until(lambda: len(of_store(night, store)) == 1)
        # Behind: nothing has been read since, and nobody is silent for that.
        night.tick(4, through=1)
        night.sell(1)
        night.tick(4, through=2)
        wait_until(lambda: len(of_store(night, store)) == 2)
        night.batch = {**SPEED, store: (7, 1, *SPEED[store][2:])}
        night.rebuild()
        night.tick(4, through=2)
        wait_until(lambda: len(of_store(night, store)) >= 4)
        night.batch = {**night.batch, store: (3, *SPEED[store][1:])}
        night.rebuild()
        night.tick(4, through=2)
        wait_until(lambda: ("busy", "clear", "retracted", 1) in of_store(night, store))
        night.batch = {**SPEED}
        night.rebuild()
        night.tick(4, through=2)
        wait_until(lambda: [one for one in told(night) if one.occurrence == 2])

    first = [one for one in of_store(night, store) if one[3] in (0, 1)]
    assert first[:6] == [
        ("busy", "raise", "provisional", 0),
        ("busy", "clear", "provisional", 1),
        ("busy", "raise", "confirmed", 0),
        ("busy", "clear", "confirmed", 1),
        ("busy", "raise", "retracted", 0),
        ("busy", "clear", "retracted", 1),
    ]
    again = [one for one in told(night) if one.occurrence == 2 and one.store_id == store]
    assert {(one.edge, one.state) for one in again} == {
        ("raise", "confirmed"),
        ("clear", "confirmed"),
    }
    assert each_once(night)


def test_nobody_is_silent_while_the_pipeline_stands_still_and_then_one_store_is_once(
    begin: Start, night: Quarters
) -> None:
    night.speed = {"367": (3, 3, 3), "406": (3, 0, 3), "500": (3, 3, 3)}
    with running(begin, night):
        for number in range(3):
            night.sell(number)
            night.tick(number + 1, through=0)
        for _ in range(3):
            night.tick(3, through=1)
        night.tick(3, through=2)
        wait_until(lambda: told(night))
        night.tick(3)
        wait_until(lambda: len(told(night)) == 2)

    assert of_store(night, "406") == [
        ("silent", "raise", "provisional", 1),
        ("silent", "clear", "provisional", 2),
    ]


def test_it_says_since_when_nothing_was_evaluated_and_how_long_its_state_took(
    begin: Start, night: Quarters
) -> None:
    heart = night.settings.home / "run" / "evaluator.heartbeat"
    heart.parent.mkdir(exist_ok=True)
    settings = night.settings.model_copy(update={"heartbeat_file": heart.with_stem("api")})
    with closing(AlertWatch(settings, interval_seconds=0.2)) as watch:
        assert watch.facts() == AlertFacts()
        process = started(begin, night, 0, {"TALLY_HEARTBEAT_FILE": str(heart)})
        wait_until(lambda: gauge(watch, "tally_evaluator_blind_seconds") < 3)
        wait_until(lambda: gauge(watch, 'tally_restore_seconds{service="evaluator"}') < 60)
        assert stop(process) == 0


def gauge(watch: AlertWatch, name: str) -> float:
    """A number as it is scraped now; one that is not there is endless."""
    now = int(time.time() * 1_000)
    text = "".join(one.text for one in build_fact_gauges(watch.facts(), now))
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else math.inf


def test_two_share_the_partitions_and_one_that_was_frozen_tells_nothing_twice(
    begin: Start, night: Quarters
) -> None:
    changes = _sold(night, with_hints=True)
    first, second = started(begin, night), started(begin, night, slot=1)
    for _ in range(3):
        next(changes)
    # Longer than the group waits for it: the other one has its partitions then.
    second.send_signal(signal.SIGSTOP)
    for _ in changes:
        pass
    wait_until(lambda: last_states(night, told(night)) == night.provisional(), MAX_SECONDS)
    second.send_signal(signal.SIGCONT)
    for _ in _rebuilt(night):
        pass
    wait_until(lambda: last_states(night, told(night)) == night.settled(), MAX_SECONDS)

    # One that was frozen within a transaction is late for good: a new start would heal that.
    assert (stop(first), stop(second)) in ((DONE, DONE), (DONE, FAILED))
    assert each_once(night)


@pytest.mark.parametrize(("with_hints", "kills"), [(True, EACH), (False, SOME)])
def test_killed_at_every_moment_it_tells_each_state_once_and_what_a_reader_of_rules_expects(
    begin: Start, night: Quarters, with_hints: bool, kills: Sequence[str]
) -> None:
    half = len(kills) // 2
    changes = _sold(night, with_hints=with_hints)
    ended = [killed(begin, kill, changes, -(-night.count // half)) for kill in kills[:half]]
    with running(begin, night):
        wait_until(lambda: last_states(night, told(night)) == night.provisional(), MAX_SECONDS)
    changes = _rebuilt(night)
    ended += [killed(begin, kill, changes) for kill in kills[half:]]
    for _ in changes:
        pass
    with running(begin, night):
        wait_until(lambda: last_states(night, told(night)) == night.settled(), MAX_SECONDS)

    assert ended == [KILLED] * len(kills)
    assert each_once(night)


def killed(begin: Start, kill: str, changes: Iterator[None], count: int = 1) -> int:
    """How an evaluator has ended that kills itself, with so many changes while it runs."""
    process = begin(CRASHING, kill)
    for _ in range(count):
        next(changes, None)
    try:
        return process.wait(MAX_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(process.communicate()[1][-8000:]) from None


def _sold(night: Quarters, *, with_hints: bool) -> Iterator[None]:
    """One quarter hour after the other is counted and closed."""
    for number in range(night.count):
        night.sell(number, with_hints=with_hints)
        night.tick(number + 1)
        yield


def _rebuilt(night: Quarters) -> Iterator[None]:
    """One generation after the other covers more of them."""
    for until in (3, 6, night.count):
        night.rebuild(until)
        night.tick(night.count)
        yield
