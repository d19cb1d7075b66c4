"""What an article's movements cost: as much for each, however many there are; and what is kept."""

import gc
import time
from collections.abc import Callable, Sequence

import pytest

from inventory.movements.movement import StockMovement
from inventory.sync.calls import CallAnswer, CallChange, CallMode, StockCall, StoredCall, call_key
from inventory.sync.engine import StockSyncEngine
from runtime.outbound.engine import DroppedRecord
from tally.time.instants import DAY_MILLIS, format_utc, from_millis
from tests.unit.inventory.moved import NOON, calls, count, engine_of, later, movement

FEW, MANY, RUNS, ROUNDS = 1_000, 4_000, 3, 4
# Linear is 4, quadratic 16.
MAX_RATIO = 6.0
WEEK = 7 * DAY_MILLIS
Story = Callable[[int], list[StockMovement]]


def at(millis: int) -> str:
    return format_utc(from_millis(NOON + millis))


def never_counted(number: int) -> list[StockMovement]:
    return [movement(one, happened_at=at(one * 1000)) for one in range(number)]


def counted(number: int) -> list[StockMovement]:
    return [count(10**6, 9000, at(-1000)), *never_counted(number)]


def backwards(number: int) -> list[StockMovement]:
    return [count(10**6, 9000, at(-1000)), *reversed(never_counted(number))]


def counts_among_sales(number: int) -> list[StockMovement]:
    """Late counts, each between two sales that came before."""
    late = [count(10**6 + one, 9000, at(one * 1000 + 500)) for one in range(number // 2)]
    return [*never_counted(number - len(late)), *late]


def ratio(work: Callable[[int], object]) -> float:
    """How much longer many take than few, in time of this process.

    Of each the quickest of several, in turn: a busy moment of the machine must not hit one alone.
    Without the garbage collector: a collection would look through what all other tests have left.
    """

    def seconds(number: int) -> float:
        gc.disable()
        begun = time.process_time()
        work(number)
        taken = time.process_time() - begun
        gc.enable()
        return taken

    found = 2 * MAX_RATIO
    # What is not linear stays so, however often it is measured.
    for _ in range(ROUNDS):
        runs = [(seconds(FEW), seconds(MANY)) for _ in range(RUNS)]
        found = min(found, min(many for _, many in runs) / min(few for few, _ in runs))
        if found <= MAX_RATIO:
            break
    return found


def told(
    mode: CallMode, movements: Sequence[StockMovement]
) -> tuple[StockSyncEngine, list[CallChange]]:
    """An engine that has taken them and called for each, and all records of it."""
    engine, kept = engine_of(mode), list[CallChange]()
    for one in movements:
        kept += engine.process_movement(one)
        for asked in (begun := engine.begin_attempts([])).calls:
            kept += [*begun.records, *engine.record_answer(asked, CallAnswer(status=200))]
    return engine, kept


@pytest.mark.parametrize("story", [never_counted, counted, backwards, counts_among_sales])
def test_taking_the_movements_of_one_article_is_linear(story: Story) -> None:
    def take(number: int) -> None:
        engine = engine_of("idempotency_key")
        for one in story(number):
            engine.process_movement(one)

    assert ratio(take) <= MAX_RATIO


@pytest.mark.parametrize("story", [never_counted, counted, counts_among_sales])
def test_calling_for_what_has_waited_is_linear(story: Story) -> None:
    def call(number: int) -> None:
        engine = engine_of("idempotency_key")
        for one in story(number):
            engine.process_movement(one)
        while asked := engine.begin_attempts([]).calls:
            for one_asked in asked:
                engine.record_answer(one_asked, CallAnswer(status=200))

    assert ratio(call) <= MAX_RATIO


@pytest.mark.parametrize("story", [never_counted, counted, backwards, counts_among_sales])
@pytest.mark.parametrize("is_waiting", [True, False])
def test_restoring_the_movements_of_one_article_is_linear(story: Story, is_waiting: bool) -> None:
    stored: dict[int, list[StoredCall]] = {}
    for number in (FEW, MANY):
        if is_waiting:
            engine = engine_of("idempotency_key")
            stored[number] = [
                kept for one in story(number) for kept in engine.process_movement(one)
            ]
        else:
            _, kept = told("idempotency_key", story(number))
            newest = {call_key(one): one for one in kept}
            stored[number] = [one for one in newest.values() if isinstance(one, StockCall)]

    assert ratio(lambda number: engine_of("idempotency_key").restore(stored[number])) <= MAX_RATIO


def kept_after(engine: StockSyncEngine, days: int, each_day: int, mode: str) -> list[int]:
    """After each day of so many sales of an article, how many records the topic has of it."""
    stored: dict[bytes, CallChange] = {}
    found, number = [], 0
    for _ in range(days):
        kept = list[CallChange]()
        for _ in range(each_day):
            number += 1
            happened = format_utc(from_millis(engine.memory.time.at))
            kept += engine.process_movement(movement(number, happened_at=happened))
        while (begun := engine.begin_attempts([])).calls:
            kept += begun.records
            for asked in begun.calls:
                kept += engine.record_answer(
                    asked, CallAnswer(status=200, quantity_milli=0, version="a")
                )
        kept += later(engine, DAY_MILLIS)
        for one in kept:
            stored.pop(call_key(one), None)
            if not isinstance(one, DroppedRecord):
                stored[call_key(one)] = one
        found.append(len(stored))
    return found


@pytest.mark.parametrize("mode", ["idempotency_key", "compare_and_set", "absolute"])
@pytest.mark.parametrize("is_counted", [True, False])
def test_what_is_settled_is_forgotten_so_that_the_state_is_of_a_week(
    mode: CallMode, is_counted: bool
) -> None:
    engine, each_day = engine_of(mode), 20
    if is_counted:
        engine.process_movement(count(10**6, 10**9, at(-1000)))

    sizes = kept_after(engine, 120, each_day, mode)

    # A week, the day that is going on, the one until they are looked through; and a few others.
    assert max(sizes) <= 9 * each_day + 20
    assert sizes[-1] == sizes[30]


def test_a_night_sets_the_levels_that_have_changed_and_no_others() -> None:
    engine = engine_of("absolute")
    for number in range(5):
        engine.process_movement(
            movement(number, item_id=f"item-{number}", delta_milli=None, counted_milli=9000)
        )
    engine.process_movement(movement(9, item_id="item-1", happened_at=at(1000)))

    nights = []
    for night in range(4):
        if night == 2:
            engine.process_movement(movement(10, item_id="item-2", happened_at=at(2000)))
        while asked := engine.begin_attempts([]).calls:
            for one in asked:
                engine.record_answer(one, CallAnswer(status=204))
        nights.append(sorted(one.item_id for one in calls(later(engine, DAY_MILLIS))))

    assert nights == [[f"item-{number}" for number in range(5)], [], ["item-2"], []]


def test_a_level_that_could_not_be_set_at_night_is_set_in_the_next_one() -> None:
    engine = engine_of("absolute", gives_up_after=2 * DAY_MILLIS)
    engine.process_movement(count(1, 9000))
    [asked] = engine.begin_attempts([]).calls
    engine.record_answer(asked, CallAnswer(status=204))
    found = []
    for answer in (422, 422, 422, 204, 204):
        nightly = calls(later(engine, DAY_MILLIS))
        found.append(len(nightly))
        for _ in nightly:
            for _ in range(3):
                for one in engine.begin_attempts([]).calls:
                    engine.record_answer(one, CallAnswer(status=answer))
                later(engine, 60_000)

    assert found == [1, 1, 1, 1, 0]


def test_a_restored_engine_sets_the_same_levels_at_night() -> None:
    engine, other = engine_of("absolute"), engine_of("absolute")
    stored: dict[bytes, StoredCall] = {}

    def keep(kept: Sequence[CallChange]) -> None:
        stored.update({call_key(one): one for one in kept if not isinstance(one, DroppedRecord)})

    for number in range(4):
        keep(
            engine.process_movement(
                movement(number, item_id=str(number), delta_milli=None, counted_milli=1)
            )
        )
    for _ in range(2):
        keep(later(engine, DAY_MILLIS))
        while (begun := engine.begin_attempts([])).calls:
            keep(begun.records)
            for asked in begun.calls:
                keep(engine.record_answer(asked, CallAnswer(status=204)))
    keep(engine.process_movement(movement(9, item_id="3", happened_at=at(2000))))

    other.restore(stored.values())

    nights = [[one.item_id for one in calls(later(each, DAY_MILLIS))] for each in (engine, other)]
    assert nights == [["3"], ["3"]]
