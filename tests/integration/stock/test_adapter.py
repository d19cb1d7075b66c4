"""The stock adapter in each of its modes on the real broker: a system that loses half of the calls
and half of the answers, others who write, and processes that are killed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import pytest

from inventory.sync.calls import CallMode
from tally.config.settings import Settings
from tests.integration.stock.shop import MOVES, SHARED, Adapted, adapted

MODES: tuple[CallMode, ...] = get_args(CallMode)
ONCE: tuple[CallMode, ...] = ("idempotency_key", "compare_and_set", "sole")


@pytest.fixture(scope="module")
def all_modes(
    kafka: str, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[CallMode, Adapted]]:
    """What came of each mode; they work side by side, for most of it is waiting."""
    folder: Path = tmp_path_factory.mktemp("targets")
    with ThreadPoolExecutor(len(MODES)) as threads:
        working = {mode: threads.submit(adapted, mode, settings, folder) for mode in MODES}
        found = {mode: one.result() for mode, one in working.items()}
    for mode, one in found.items():
        times = sorted(one.inventory.book.applied().values(), reverse=True)
        print(f"{mode}: {dict(one.inventory.happened)}; applied {sum(times)}, most {times[0]}")
    yield found


@pytest.fixture(params=MODES)
def one(request: pytest.FixtureRequest, all_modes: dict[CallMode, Adapted]) -> Adapted:
    """One of the modes."""
    return all_modes[request.param]


def test_calls_and_answers_were_lost(one: Adapted) -> None:
    assert one.inventory.has_failed()
    assert (one.inventory.book.others.total() != 0) == (one.mode in SHARED)


def test_every_movement_has_come_to_an_end(one: Adapted) -> None:
    assert len(one.movements) == MOVES
    assert {call.outcome for call in one.calls.values()} <= {"applied", "refused", "unknown"}


@pytest.mark.parametrize("mode", ONCE)
def test_applied_once_and_in_order(mode: CallMode, all_modes: dict[CallMode, Adapted]) -> None:
    one = all_modes[mode]
    applied, book = one.inventory.book.applied(), one.inventory.book

    assert {movement.movement_id for movement in one.movements} == applied.keys()
    assert set(applied.values()) == {1}
    assert {call.outcome for call in one.calls.values()} == {"applied"}
    expected = {lane: level + book.others[lane] for lane, level in one.expected().items()}
    assert dict(book.levels) == expected
    for lane, order in book.order().items():
        assert order == [each.movement_id for each in one.movements if each.lane == lane]


def test_attempts_under_one_key_have_the_same_bytes(all_modes: dict[CallMode, Adapted]) -> None:
    bodies = all_modes["idempotency_key"].inventory.bodies

    assert {key for key, told in bodies.items() if len(told) > 1} == set()


def test_levels_are_right_after_the_night(all_modes: dict[CallMode, Adapted]) -> None:
    one = all_modes["absolute"]

    assert dict(one.inventory.book.levels) == one.expected()
    assert any(call.kind == "reconciliation" for call in one.calls.values())


def test_at_least_once_applies_each_and_some_twice(all_modes: dict[CallMode, Adapted]) -> None:
    applied = all_modes["at_least_once"].inventory.book.applied()

    assert {movement.movement_id for movement in all_modes["at_least_once"].movements} == (
        applied.keys()
    )
    assert max(applied.values()) > 1


def test_at_most_once_applies_none_twice_and_says_of_which_it_does_not_know(
    all_modes: dict[CallMode, Adapted],
) -> None:
    one = all_modes["at_most_once"]
    applied = one.inventory.book.applied()
    unknown = {name for name, call in one.calls.items() if call.outcome == "unknown"}

    assert set(applied.values()) == {1}
    assert 0 < len(applied) < MOVES
    told = {name for name, call in one.calls.items() if call.outcome == "applied"}
    assert told <= applied.keys() <= told | unknown
