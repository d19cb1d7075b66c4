"""What there is of an article by its movements, in whatever order they come."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import permutations

from hypothesis import example, given
from hypothesis import strategies as st

from inventory.movements.movement import StockMovement, instant_millis, level_effect
from inventory.sync.calls import CallAnswer, LaneLevel, StoredCall, call_key
from inventory.sync.memory import ArticleLevel
from runtime.outbound.engine import DroppedRecord
from tally.algebra.level import Level
from tally.time.instants import DAY_MILLIS, format_utc, from_millis
from tests.unit.inventory.moved import NOON, calls, count, engine_of, later, movement

BEGIN = datetime(2026, 11, 26, 8, tzinfo=UTC)


def at(minutes: int) -> str:
    return format_utc(BEGIN + timedelta(minutes=minutes))


def millis(minutes: int) -> int:
    return instant_millis(at(minutes))


def article_of(movements: Iterable[StockMovement]) -> ArticleLevel:
    article = ArticleLevel()
    for one in movements:
        article.add(one.millis, level_effect(one))
    return article


def level_after(movements: Iterable[StockMovement]) -> int | None:
    return article_of(movements).level


def test_a_count_that_comes_late_says_what_was_there_then() -> None:
    told = (
        movement(1, happened_at=at(1)),
        count(2, 10_000, at(2)),
        movement(3, happened_at=at(3)),
        movement(4, happened_at=at(4), delta_milli=5000),
    )

    assert {level_after(one) for one in permutations(told)} == {14_000}


def test_of_what_nobody_has_counted_nothing_is_known() -> None:
    assert level_after([movement(1), movement(2)]) is None


events = st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.integers(-5, 9)), max_size=30)


@given(events)
def test_a_running_sum_is_what_the_part_level_makes_of_all_events(
    told: list[tuple[int, bool, int]],
) -> None:
    part, article, value = Level("stock"), ArticleLevel(), Level.zero
    for at, is_count, number in told:
        brought = Level.encode_count(number) if is_count else Level.encode_movement(number)
        expected = part.plus(value, [[at, brought]])
        assert article.level_after(at, brought) == part.at_end(expected)
        article.add(at, brought)
        value = expected

        assert article.level == part.at_end(value)


@given(events, st.integers(0, 21))
def test_without_what_is_old_the_level_is_the_same(
    told: list[tuple[int, bool, int]], before: int
) -> None:
    article, whole = ArticleLevel(), ArticleLevel()
    for each in (article, whole):
        each.add(0, Level.encode_count(50_000))
        for at, is_count, number in told:
            each.add(at, Level.encode_count(number) if is_count else Level.encode_movement(number))

    article.forget_before(before)

    assert article.level == whole.level
    assert article.instants_before(before) == []
    article.add(before, Level.encode_movement(-7))
    assert article.level == (whole.level or 0) - 7 or whole.is_before_count(
        before, Level.encode_movement(-7)
    )


def test_what_came_a_week_late_is_told_and_what_a_count_has_is_not() -> None:
    engine = engine_of("idempotency_key")
    engine.process_movement(count(1, 9000, "2026-11-16T10:00:00.000Z"))
    engine.process_movement(movement(2, happened_at="2026-11-17T10:00:00.000Z"))
    later(engine, DAY_MILLIS)

    late = engine.process_movement(movement(3, happened_at="2026-11-16T11:00:00.000Z"))
    before = engine.process_movement(movement(4, happened_at="2026-11-16T09:00:00.000Z"))

    assert [(one.delta_milli, one.level_milli) for one in calls([*late])] == [(-1000, 7000)]
    assert [one.outcome for one in calls([*before])] == ["overruled"]


steps = st.tuples(st.integers(0, 20), st.integers(-3, 3), st.booleans())


@given(st.lists(steps, max_size=14))
@example([(10, 0, True), (9, 1, False)])
def test_a_restored_engine_knows_what_the_first_knew(told: list[tuple[int, int, bool]]) -> None:
    engine, other, stored = engine_of("absolute"), engine_of("absolute"), dict[bytes, StoredCall]()
    for number, (days, milli, passes) in enumerate(told):
        happened = format_utc(from_millis(NOON + (number - days) * DAY_MILLIS))
        one = movement(number, happened_at=happened, delta_milli=milli or 7)
        kept = [*engine.process_movement(one if milli else count(number, 9000, happened))]
        for asked in engine.begin_attempts([]).calls:
            kept += [asked.call, *engine.record_answer(asked, CallAnswer(status=200))]
        kept += later(engine, DAY_MILLIS) if passes else []
        stored |= {call_key(each): each for each in kept if not isinstance(each, DroppedRecord)}

    other.restore(stored.values())

    for lane in engine.memory.lanes():
        assert other.memory.level(lane) == engine.memory.level(lane)


def test_of_an_article_that_has_not_moved_nothing_is_written_anew() -> None:
    engine = engine_of("idempotency_key")
    engine.process_movement(count(1, 9000, "2026-11-16T10:00:00.000Z"))

    written = [
        [one for one in later(engine, DAY_MILLIS) if isinstance(one, LaneLevel)] for _ in range(3)
    ]

    assert [len(levels) for levels in written] == [1, 0, 0]
