"""A count that a later count has overruled is not told: it would wipe out what others wrote."""

from typing import get_args

import pytest

from inventory.sync.calls import HOUR, CallAnswer, CallMode, StockCall, StoredCall, call_key
from inventory.sync.engine import StockSyncEngine
from tally.time.instants import DAY_MILLIS, format_utc, from_millis
from tests.unit.inventory.moved import NOON, calls, count, engine_of, later, movement

MODES: tuple[CallMode, ...] = get_args(CallMode)
UNSENT = CallAnswer(error="no connection", is_unsent=True)


def at(millis: int) -> str:
    return format_utc(from_millis(NOON + millis))


def told(engine: StockSyncEngine, *answers: CallAnswer) -> list[str]:
    """Movements that are called for until nothing is due, by the end of their identity."""
    found, given = [], [*answers]
    # One that is overruled when its turn has come makes room for the next.
    while (begun := engine.begin_attempts([])).records:
        for one in begun.calls:
            found.append(one.call.movement_id[-3:])
            known = CallAnswer(status=200, quantity_milli=1, version="a")
            engine.record_answer(one, given.pop(0) if given else known)
    return [*dict.fromkeys(found)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "late", [30 * HOUR, 8 * DAY_MILLIS, 9 * DAY_MILLIS, 11 * DAY_MILLIS, 400 * DAY_MILLIS]
)
def test_a_count_before_the_last_count_is_overruled_however_late_it_comes(
    mode: CallMode, late: int
) -> None:
    engine = engine_of(mode)
    engine.process_movement(count(1, 50_000, at(-2 * HOUR)))
    engine.process_movement(movement(2, happened_at=at(-HOUR)))
    told(engine)

    [overruled] = calls([*engine.process_movement(count(3, 70_000, at(-late)))])

    assert (overruled.outcome, overruled.cause) == ("overruled", "a later count has it already")
    assert told(engine) == []
    assert engine.memory.level("367|milk") == 49_000


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("was_counted", [True, False])
def test_a_count_that_comes_more_than_a_week_late_is_overruled(
    mode: CallMode, was_counted: bool
) -> None:
    engine = engine_of(mode)
    if was_counted:
        engine.process_movement(count(1, 50_000, at(-20 * DAY_MILLIS)))
    engine.process_movement(movement(2, happened_at=at(-9 * DAY_MILLIS)))
    told(engine)
    later(engine, DAY_MILLIS)
    told(engine)
    level = engine.memory.level("367|milk")

    [overruled] = calls([*engine.process_movement(count(3, 70_000, at(-10 * DAY_MILLIS)))])

    assert overruled.outcome == "overruled"
    assert "7 days" in overruled.cause
    assert engine.memory.level("367|milk") == level == (49_000 if was_counted else None)


@pytest.mark.parametrize("mode", MODES)
def test_a_count_that_waits_when_a_later_one_comes_is_not_called_for(mode: CallMode) -> None:
    engine = engine_of(mode)
    engine.process_movement(count(1, 70_000, at(-2 * HOUR)))
    [asked] = engine.begin_attempts([]).calls
    engine.record_answer(asked, UNSENT)
    engine.process_movement(count(2, 50_000, at(-HOUR)))
    later(engine, 60_000)

    assert told(engine) == ["2#1"]


def test_a_count_that_may_have_arrived_is_asked_for_until_that_is_known() -> None:
    engine = engine_of("idempotency_key")
    engine.process_movement(count(1, 70_000, at(-2 * HOUR)))
    [asked] = engine.begin_attempts([]).calls
    engine.record_answer(asked, CallAnswer(error="no answer in 15 s"))
    engine.process_movement(count(2, 50_000, at(-HOUR)))
    later(engine, 60_000)

    assert told(engine) == ["1#1", "2#1"]


@pytest.mark.parametrize("mode", MODES)
def test_a_restored_engine_tells_the_same_counts(mode: CallMode) -> None:
    engine, other, stored = engine_of(mode), engine_of(mode), dict[bytes, StoredCall]()
    kept = [
        *engine.process_movement(count(1, 70_000, at(-2 * HOUR))),
        *engine.process_movement(count(2, 50_000, at(-HOUR))),
        *engine.process_movement(count(3, 10_000, at(-3 * HOUR))),
    ]
    stored = {call_key(one): one for one in kept if isinstance(one, StockCall)}
    assert len(stored) == 3

    other.restore([*stored.values(), engine.memory.time])

    assert told(other) == told(engine) == ["2#1"]
    assert other.memory.level("367|milk") == 50_000


def test_the_newest_count_and_one_between_movements_are_told() -> None:
    engine = engine_of("idempotency_key")
    engine.process_movement(count(1, 50_000, at(-5 * HOUR)))
    engine.process_movement(movement(2, happened_at=at(-HOUR)))
    told(engine)

    # By another count of then, and by one of before the sale that came first.
    again = calls([*engine.process_movement(count(3, 60_000, at(-5 * HOUR)))])
    between = calls([*engine.process_movement(count(4, 20_000, at(-2 * HOUR)))])

    assert [(one.outcome, one.level_milli) for one in (*again, *between)] == [
        ("intent", 59_000),
        ("intent", 19_000),
    ]
