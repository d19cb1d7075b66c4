"""Evaluators killed at every moment, two at a time, and Kafka's own console consumer as the judge:
each state of each alert once, and just those that the receipts call for.

By default each moment comes once. The whole, each twenty times, is a quarter of an hour:
`make test-chaos ARGS="--alert-kills 20 -k alert_kills"`.
"""

import signal
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ops.local.processes import supervisor
from ops.local.processes.processes import has_ended
from ops.local.processes.service import Site
from ops.local.services import catalogue
from ops.local.stack import control
from runtime.kafka.reader import read_to_end, read_to_high_watermark
from runtime.process.job import DONE, FAILED, REFUSED
from runtime.processor.delivery import AFTER_OFFSETS, AFTER_POLL, BEFORE_COMMIT, FAILPOINTS
from tests.chaos.alerts.alert_slots import FREEZES, KilledSlot, is_frozen, started
from tests.controls.processes.faulty_evaluator import AFTER_READ, IN_RESTORE
from tests.integration.ingest.conftest import Start, stop
from tests.support.alerts.alert_oracle import AlertMessages
from tests.support.alerts.alert_shop import AlertShop
from tests.support.clients.console_consumer import AlertConsole, subscribed
from tests.support.stack.loop import wait_until

SEED = 13
MOMENTS = (AFTER_POLL, AFTER_READ, *FAILPOINTS[1:], IN_RESTORE)
# Frozen before its transaction begins, and frozen in one: each longer than its group waits.
FROZEN = (f"{AFTER_READ}:1{FREEZES}", f"{BEFORE_COMMIT}:1{FREEZES}")
RANKS = ("provisional", "confirmed", "retracted")
OFF_STRETCHES = 20
TICKS_LATER = 8


@pytest.fixture
def slots(pytestconfig: pytest.Config, begin: Start, shop: AlertShop) -> list[KilledSlot]:
    """Two slots with the kills divided among them, each in the midst of which one is frozen."""
    chance = Random(SEED)
    times = int(pytestconfig.getoption("--alert-kills"))
    kills = [f"{name}:{1 + number % 2}" for name in MOMENTS for number in range(times)]
    chance.shuffle(kills)
    found = []
    for slot, freeze in enumerate(FROZEN):
        own = kills[slot :: len(FROZEN)]
        half = len(own) // 2
        found.append(KilledSlot(begin, shop, slot, [*own[:half], freeze, *own[half:]]))
    return found


def heard(shop: AlertShop, console: AlertConsole) -> Counter[tuple[str, str]]:
    """How often the console consumer has printed each state, once it has come to the end."""
    committed = sum(1 for _ in read_to_end(shop.quarters.settings, ["alerts"]))
    wait_until(lambda: console.states().total() >= committed, 60, "it has printed all of them")
    return console.states()


def each_once(messages: AlertMessages) -> Counter[tuple[str, str]]:
    """What a subscriber has heard who has heard each of them, and nothing else."""
    return Counter(messages)


def aborted(shop: AlertShop) -> int:
    """How many alerts the topic holds that no reader of committed records is given, once every
    transaction in it has ended."""
    settings = shop.quarters.settings
    every = read_to_end(settings, ["alerts"], {"isolation.level": "read_uncommitted"})
    written = sum(1 for _ in every)
    lanes = [("alerts", number) for number in range(settings.partitions)]
    return written - sum(1 for _ in read_to_high_watermark(settings, lanes))


def has_failed(working: Sequence["Future[Any]"]) -> bool:
    """False; raises what one of them has raised, without waiting for the others."""
    for one in working:
        if one.done():
            one.result()
    return False


def are_in_order(console: AlertConsole) -> bool:
    """Whether no alert has gone back to an earlier state."""
    last: dict[str, int] = {}
    for one in console.alerts():
        rank = RANKS.index(one.state)
        if rank <= last.get(one.alert_id, -1):
            return False
        last[one.alert_id] = rank
    return True


def test_killed_at_each_moment_in_two_slots_a_subscriber_hears_each_state_once(
    slots: Sequence[KilledSlot],
    begin: Start,
    shop: AlertShop,
    console: AlertConsole,
    tmp_path: Path,
) -> None:
    # There has to be a state that a restore can be killed in.
    first = started(begin, shop)
    shop.play()
    assert stop(first) == DONE
    with ThreadPoolExecutor(len(slots)) as threads:
        working = [threads.submit(one.work) for one in slots]
        while not all(one.done() for one in working):
            shop.play(until=lambda: has_failed(working))
    last = [one.result() for one in working]
    zombies = [process for one in slots for process in one.frozen]
    for zombie in zombies:
        zombie.send_signal(signal.SIGCONT)
    shop.play()
    # Each slot has one owner, and that is not the one that was frozen.
    assert [zombie.wait(90) for zombie in zombies] == [REFUSED] * len(FROZEN)
    shop.play()
    assert [stop(one) for one in last] == [DONE] * len(slots)

    found, expected = heard(shop, console), shop.expected()
    done = sum((one.done for one in slots), Counter[str]())
    ended = sum((one.ended for one in slots), Counter[int]())
    print(f"killed at {dict(done)}; exit codes {dict(ended)}; {found.total()} messages")
    assert found == each_once(expected)
    assert are_in_order(console)
    # Negative control: who reads what no transaction has committed hears some of it twice.
    printed = tmp_path / "uncommitted.jsonl"
    with subscribed(shop.quarters.settings, printed, "read_uncommitted") as uncommitted:
        wait_until(lambda: max(uncommitted.states().values(), default=0) > 1, 60, "it hears twice")


@pytest.mark.parametrize("is_ended", [False, True], ids=["soon", "when the brokers have ended it"])
def test_broker_that_dies_with_alerts_in_an_open_transaction_makes_none_come_twice(
    is_ended: bool, alert_site: Site, begin: Start, shop: AlertShop, console: AlertConsole
) -> None:
    crash = ("--crash", f"{AFTER_OFFSETS}:1{FREEZES}")
    process = started(begin, shop, faults=crash)
    shop.sell(shop.next_stretch())
    wait_until(lambda: is_frozen(process), 60, "it is frozen in its transaction")
    kafka = [catalogue.SERVICES["kafka"]]
    broker = supervisor.working_process(alert_site, *kafka)
    assert broker is not None
    broker.kill()
    wait_until(lambda: has_ended(broker), 30, "the broker is gone")
    control.up(alert_site, kafka, print)
    if is_ended:
        assert aborted(shop) > 0
    process.send_signal(signal.SIGCONT)
    shop.wait_until_evaluated(lambda: process.poll() is not None)
    # The brokers may have ended what was open for too long: a new start heals that.
    assert process.poll() is not None or not is_ended
    if process.poll() is not None:
        assert process.returncode == FAILED
        process = started(begin, shop)
    shop.wait_until_evaluated()
    shop.rebuild()
    shop.wait_until_evaluated()
    assert stop(process) == DONE

    assert heard(shop, console) == each_once(shop.expected())


def test_evaluator_that_was_off_for_a_day_tells_each_episode_in_two_messages_and_as_late(
    begin: Start, shop: AlertShop, console: AlertConsole
) -> None:
    process = started(begin, shop)
    shop.play()
    assert stop(process) == DONE
    before, sent = shop.expected(), len(shop.receipts)
    for _ in range(OFF_STRETCHES):
        shop.sell(shop.next_stretch())
    shop.rebuild()
    shop.quarters.tick(shop.sold + TICKS_LATER, through=shop.sold)
    process = started(begin, shop)
    shop.wait_until_evaluated()
    assert stop(process) == DONE

    since = shop.oracle(shop.receipts[sent:], told_in_time=False)
    assert heard(shop, console) == each_once(before | since)
    late = [one for one in console.alerts() if (one.alert_id, one.state) in since]
    each = Counter(one.of or one.alert_id for one in late)
    assert len(each) > OFF_STRETCHES and set(each.values()) == {2}
    assert all(one.late for one in late)
