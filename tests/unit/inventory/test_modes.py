"""What each answer makes of a call, where the laws do not say it by themselves."""

import pytest
from msgspec import structs

from inventory.sync.calls import HOUR, MAX_REFUSALS, CallAnswer, CallMode, CallOutcome, CallRules
from inventory.sync.engine import MAX_AT_ONCE, StockSyncEngine
from inventory.sync.memory import RETENTION_MILLIS
from runtime.outbound.engine import DroppedRecord, TickTime
from tally.time.instants import DAY_MILLIS
from tests.unit.inventory.moved import NOON, calls, count, engine_of, later, movement

NOTHING = CallAnswer(error="no answer in 15 s")
LEVEL = CallAnswer(status=200, quantity_milli=7000, version="a")
KNOWN = structs.replace(LEVEL, version="b", is_known=True)


def outcome_of(mode: CallMode, *answers: CallAnswer) -> tuple[CallOutcome, int]:
    """How a movement ends whose calls have these answers, and how often it was called."""
    engine = engine_of(mode)
    [call] = calls([*engine.process_movement(movement())])
    for answer in answers:
        [asked] = engine.begin_attempts([]).calls
        kept = calls([*engine.record_answer(asked, answer)])
        call = kept[-1]
        later(engine, 12 * HOUR if call.due_at > engine.memory.time.at else 1)
    return call.outcome, call.attempts


@pytest.mark.parametrize(
    ("mode", "answers", "outcome"),
    [
        ("idempotency_key", [CallAnswer(status=201)], "applied"),
        # A saved 500 answers 500 for ever: it stays in doubt, and is no other key's business.
        ("idempotency_key", [CallAnswer(status=500)] * 2, "called"),
        # Another attempt is just being worked on: that is no refusal.
        ("idempotency_key", [CallAnswer(status=409)] * MAX_REFUSALS, "called"),
        ("idempotency_key", [CallAnswer(status=422)] * MAX_REFUSALS, "refused"),
        ("idempotency_key", [NOTHING, *[CallAnswer(status=422)] * MAX_REFUSALS], "unknown"),
        # Expired tokens, a bridge that is being deployed, our own secrets: they hold the article.
        ("idempotency_key", [CallAnswer(status=401)] * 5, "called"),
        ("compare_and_set", [CallAnswer(error="no secret", is_refused=True)] * 5, "called"),
        ("idempotency_key", [CallAnswer(status=302)] * MAX_REFUSALS, "refused"),
        ("compare_and_set", [LEVEL, CallAnswer(status=200)], "applied"),
        ("compare_and_set", [LEVEL, CallAnswer(status=412), LEVEL], "called"),
        ("compare_and_set", [CallAnswer(status=404)] * 5, "called"),
        ("compare_and_set", [CallAnswer(status=200)] * MAX_REFUSALS, "refused"),
        ("compare_and_set", [LEVEL, NOTHING, KNOWN], "applied"),
        ("compare_and_set", [LEVEL, NOTHING, structs.replace(LEVEL, version="b")], "called"),
    ],
)
def test_what_answers_make_of_a_movement(
    mode: CallMode, answers: list[CallAnswer], outcome: CallOutcome
) -> None:
    assert outcome_of(mode, *answers) == (outcome, len(answers))


def test_nobody_is_called_any_more_once_the_key_may_be_forgotten() -> None:
    engine = engine_of("idempotency_key", gives_up_after=23 * HOUR)
    engine.process_movement(movement())
    [asked] = engine.begin_attempts([]).calls
    engine.record_answer(asked, CallAnswer(status=500, error=""))
    later(engine, 23 * HOUR)

    begun = engine.begin_attempts([])

    assert begun.calls == []
    [ended] = calls([*begun.records])
    assert (ended.outcome, ended.attempts) == ("unknown", 1)


def test_a_call_waits_for_the_one_before_it_and_not_for_other_articles() -> None:
    engine = engine_of("idempotency_key")
    for number in (1, 2):
        engine.process_movement(movement(number))
    engine.process_movement(movement(3, item_id="bread"))

    first = engine.begin_attempts([]).calls
    more = engine.begin_attempts(first).calls

    assert [one.call.movement_id[-3:] for one in first] == ["1#1", "3#1"]
    assert more == []


def test_so_many_are_under_way_at_once() -> None:
    engine = engine_of("idempotency_key")
    for number in range(MAX_AT_ONCE + 5):
        engine.process_movement(movement(number, item_id=f"item-{number}"))

    assert len(engine.begin_attempts([]).calls) == MAX_AT_ONCE


def test_an_answer_to_an_earlier_attempt_changes_nothing() -> None:
    engine = engine_of("idempotency_key")
    engine.process_movement(movement())
    [asked] = engine.begin_attempts([]).calls
    later(engine, HOUR)
    [again] = engine.begin_attempts([]).calls

    assert engine.record_answer(asked, CallAnswer(status=400)) == []
    assert calls([*engine.record_answer(again, CallAnswer(status=200))])[0].outcome == "applied"


def test_asked_to_come_later_it_comes_later() -> None:
    engine = engine_of("idempotency_key")
    engine.process_movement(movement())
    [asked] = engine.begin_attempts([]).calls

    [kept] = calls([*engine.record_answer(asked, CallAnswer(status=503, retry_after=1800))])

    assert kept.due_at == NOON + 1_800_000


def test_a_count_sets_a_level_and_what_it_has_already_is_not_told() -> None:
    engine = engine_of("idempotency_key")

    [counted] = calls([*engine.process_movement(count(1, 9000, "2026-11-26T12:00:00.000Z"))])
    [before] = calls([*engine.process_movement(movement(2))])
    [after] = calls([*engine.process_movement(movement(3, happened_at="2026-11-26T13:00:00.000Z"))])
    [late] = calls([*engine.process_movement(count(4, 4000, "2026-11-26T12:30:00.000Z"))])

    assert (counted.delta_milli, counted.level_milli) == (None, 9000)
    assert (before.outcome, before.cause) == ("overruled", "a later count has it already")
    assert (after.delta_milli, after.level_milli) == (-1000, 8000)
    assert (late.delta_milli, late.level_milli) == (None, 3000)


def test_levels_that_nobody_knows_are_not_told_as_levels() -> None:
    [unknown] = calls([*engine_of("absolute").process_movement(movement())])

    assert (unknown.outcome, unknown.cause) == ("overruled", "never counted")


def test_levels_that_changed_are_set_once_in_the_next_night() -> None:
    engine = engine_of("absolute")
    engine.process_movement(count(1, 9000))
    engine.process_movement(movement(2, item_id="bread"))

    nights = [calls(later(engine, 12 * HOUR)) for _ in range(4)]

    assert [[one.level_milli for one in night] for night in nights] == [[9000], [], [], []]
    assert nights[0][0].kind == "reconciliation"


def test_on_the_first_day_of_all_nothing_is_set_anew() -> None:
    engine = StockSyncEngine(CallRules("absolute"))
    engine.process_movement(count(1, 9000))

    assert calls([*engine.advance_time(TickTime(n=1, at=NOON))]) == []


def test_what_has_ended_is_dropped_after_its_time() -> None:
    engine = engine_of("idempotency_key")
    engine.process_movement(movement())
    [asked] = engine.begin_attempts([]).calls
    engine.record_answer(asked, CallAnswer(status=200))

    assert [one for one in later(engine, DAY_MILLIS) if isinstance(one, DroppedRecord)] == []
    dropped = later(engine, RETENTION_MILLIS)
    assert DroppedRecord(movement().movement_id.encode()) in dropped
