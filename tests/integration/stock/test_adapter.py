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


@pytest.mark.parametrize("mode", SHARED)
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
