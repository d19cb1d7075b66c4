"""The hours in which an evaluator with one mistake tells an alert twice, or not, or one that is
none; and the shipped one, which comes through all of them and hears not one hint meanwhile."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

import pytest

from alerting.evaluate.__main__ import GROUP
from alerting.evaluate.state.memory import STATE_TOPIC
from runtime.connect import kafka_admin
from runtime.process.job import DONE, FAILED, REFUSED
from tests.chaos.alerts.alert_slots import FREEZES, beginning, is_frozen, ready_file, started
from tests.chaos.alerts.test_alert_kills import each_once, heard
from tests.controls.processes.faulty_evaluator import AFTER_READ
from tests.integration.ingest.conftest import KILLED, Start, stop
from tests.support.alerts.alert_shop import AlertShop
from tests.support.clients.console_consumer import AlertConsole
from tests.support.clients.producers import connected_producer
from tests.support.stack.loop import wait_until

# Who restores too little is ready long before; who waits for the rest is not, and gives up after
# half a minute.
HELD_BACK_SECONDS = 10.0
Hour = Callable[[Start, AlertShop, Sequence[str]], None]


def an_hour_behind(begin: Start, shop: AlertShop, fault: Sequence[str]) -> None:
    """It is long after what the stores have sent, of which nothing has been read yet."""
    process = started(begin, shop, faults=fault)
    numbers = shop.next_stretch()
    shop.quarters.tick(numbers[-1] + 1, through=numbers[0])
    shop.wait_until_evaluated()
    shop.sell(numbers)
    shop.wait_until_evaluated()
    shop.rebuild()
    shop.wait_until_evaluated()
    assert stop(process) == DONE


def an_abort(begin: Start, shop: AlertShop, fault: Sequence[str]) -> None:
    """The first transaction with alerts is aborted."""
    process = started(begin, shop, faults=("--abort", *fault))
    shop.play()
    assert stop(process) == DONE


def a_stable_offset_held_back(begin: Start, shop: AlertShop, fault: Sequence[str]) -> None:
    """Told alerts lie behind what is stable in the state's topic as a successor begins there.

    On one broker the end of a commit comes to all partitions at once. So another transaction holds
    the stable offset back, which the reader cannot tell from one whose end is on its way.
    """
    process = started(begin, shop, faults=fault)
    with open_transaction(shop) as end:
        shop.sell(shop.next_stretch())
        shop.wait_until_evaluated()
        before = members(shop)
        process.kill()
        assert process.wait() == KILLED
        successor, ready = beginning(begin, shop, faults=fault), ready_file(shop, 0)
        wait_until(lambda: bool(members(shop) - before), 60, "it is given partitions")
        is_ready = comes_true(ready.exists, HELD_BACK_SECONDS)
        end()
    # Without the fault it waits for what is still to come.
    assert is_ready == bool(fault)
    wait_until(ready.exists, 60, "the successor has its state")
    # What it does not remember it would tell now.
    shop.quarters.tick(shop.quarters.count)
    shop.wait_until_evaluated()
    shop.rebuild()
    shop.wait_until_evaluated()
    assert stop(successor) == DONE


def a_zombie_of_another_slot(begin: Start, shop: AlertShop, fault: Sequence[str]) -> None:
    """Frozen with alerts that it has evaluated and not sent; woken up when they have been told."""
    crash = ("--crash", f"{AFTER_READ}:1{FREEZES}")
    zombie = started(begin, shop, faults=(*crash, *fault))
    shop.sell(shop.next_stretch())
    wait_until(lambda: is_frozen(zombie), 60, "it is frozen before its transaction")
    successor = started(begin, shop, 1, faults=fault)
    shop.wait_until_evaluated()
    zombie.send_signal(signal.SIGCONT)
    wait_until(
        lambda: len(members(shop)) == 2, 90, "it has joined again, and what it had is decided"
    )
    shop.rebuild()
    shop.wait_until_evaluated()
    # One whose transaction was ended by the brokers is late for good: a new start would heal that.
    assert stop(successor) == DONE and stop(zombie) in (DONE, FAILED)


FAULT_HOURS: dict[str, Hour] = {
    "closes with the tick": an_hour_behind,
    "keeps what was aborted": an_abort,
    "restores to the stable offset": a_stable_offset_held_back,
    "sends without positions": a_zombie_of_another_slot,
}


def test_without_one_hint_the_shipped_evaluator_tells_the_same_over_all_of_these_hours(
    begin: Start, shop: AlertShop, console: AlertConsole
) -> None:
    shop.has_hints = False
    for hour in FAULT_HOURS.values():
        hour(begin, shop, ())

    assert heard(shop, console) == each_once(shop.expected())


@pytest.mark.parametrize("fault", FAULT_HOURS)
def test_negative_control_an_evaluator_with_the_fault_tells_something_else(
    fault: str, begin: Start, shop: AlertShop, console: AlertConsole
) -> None:
    FAULT_HOURS[fault](begin, shop, ("--fault", fault))

    found, expected = heard(shop, console), each_once(shop.expected())
    print(f"{fault}: {(found - expected).total()} too many, {(expected - found).total()} too few")
    assert found != expected


@contextmanager
def open_transaction(shop: AlertShop) -> Iterator[Callable[[], None]]:
    """A transaction with a record in each partition of the state, until it is ended: aborted."""
    settings = shop.quarters.settings
    own = {"transactional.id": f"test-{uuid4().hex}", "transaction.timeout.ms": 110_000}
    producer = connected_producer(settings, own)
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(settings.partitions):
        producer.produce(STATE_TOPIC, b"of nobody", b"c", number)
    assert producer.flush(30) == 0
    yield lambda: producer.abort_transaction(30)


def comes_true(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it holds before the time is over."""
    try:
        wait_until(condition, seconds, "")
    except AssertionError:
        return False
    return True


def ended_of_one_slot(begin: Start, shop: AlertShop, fault: Sequence[str]) -> Sequence[int | None]:
    """How the frozen one and its successor have ended, once one of the two has: None who has not.

    The successor is the shipped one, as of a deployment that has mended the fault.
    """
    zombie = started(begin, shop, faults=("--crash", f"{AFTER_READ}:1{FREEZES}", *fault))
    shop.sell(shop.next_stretch())
    wait_until(lambda: is_frozen(zombie), 60, "it is frozen before its transaction")
    both = zombie, started(begin, shop)
    shop.wait_until_evaluated()
    zombie.send_signal(signal.SIGCONT)

    def has_ended() -> bool:
        return any(one.poll() is not None for one in both)

    # It meets its successor with the next transaction, and that is one of these.
    while not has_ended():
        shop.play(has_ended)
    ended = [one.poll() for one in both]
    owner = next(one for one in both if one.poll() is None)
    shop.play()
    assert stop(owner) == DONE
    return ended


def test_of_two_in_one_slot_the_one_that_was_frozen_goes(
    begin: Start, shop: AlertShop, console: AlertConsole
) -> None:
    assert ended_of_one_slot(begin, shop, ()) == [REFUSED, None]
    assert heard(shop, console) == each_once(shop.expected())


def test_negative_control_who_goes_on_although_fenced_drives_its_successor_out(
    begin: Start, shop: AlertShop
) -> None:
    found = ended_of_one_slot(begin, shop, ("--fault", "goes on although fenced"))

    assert found == [None, REFUSED]


def members(shop: AlertShop) -> set[str]:
    """Ids of the group's members that have partitions."""
    admin = kafka_admin(shop.quarters.settings)
    described = admin.describe_consumer_groups([GROUP])[GROUP].result(30)
    return {one.member_id for one in described.members if one.assignment.topic_partitions}
