"""By each tick an engine says what of its channels' messages has not arrived."""

from msgspec import structs

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.controls import Redelivery
from alerting.deliver.state.records import decode_record, encode_record
from runtime.outbound.caller import OutboundAnswer
from runtime.outbound.engine import TickTime, UndeliveredMessages
from tests.unit.alerting.deliver.deliveries import (
    MINUTE,
    NOON,
    SECOND,
    alert,
    channel,
    engine_with,
    later,
    of_kind,
)

REFUSED, AWAY = OutboundAnswer(status=400), OutboundAnswer(status=503)
NOTHING = UndeliveredMessages()


def undelivered(engine: DeliveryEngine, millis: int = SECOND) -> dict[str, UndeliveredMessages]:
    """What the engine says with a tick so much later."""
    [told] = of_kind(TickTime, later(engine, millis))
    return told.undelivered


def answer_all(engine: DeliveryEngine, answer: OutboundAnswer) -> None:
    for one in engine.begin_attempts([]).calls:
        engine.record_answer(one, answer)


def test_what_waits_is_as_old_as_its_first_attempt_whatever_the_next_one_is_due() -> None:
    engine = engine_with(channel("floor"), channel("office", rules=("another",)))
    assert undelivered(engine) == {"floor": NOTHING, "office": NOTHING}
    engine.process_alert(alert(1))
    began = engine.memory.time.at
    answer_all(engine, AWAY)
    engine.process_alert(alert(2, store_id="406"))
    first = undelivered(engine)
    answer_all(engine, AWAY)
    hour_later = undelivered(engine, 60 * MINUTE)

    assert first == hour_later == {"floor": UndeliveredMessages(began), "office": NOTHING}
    answer_all(engine, OutboundAnswer(status=204))
    assert undelivered(engine) == {"floor": NOTHING, "office": NOTHING}


def test_what_is_not_due_yet_does_not_wait() -> None:
    engine = engine_with()
    engine.process_alert(alert(1))
    [one] = engine.memory.waiting.values()
    engine.memory.remember(structs.replace(one, due_at=NOON + 60 * MINUTE))

    assert undelivered(engine) == {"floor": NOTHING}
    assert undelivered(engine, 60 * MINUTE) == {"floor": UndeliveredMessages(NOON + 60 * MINUTE)}


def test_what_was_given_up_counts_until_somebody_calls_for_it_again() -> None:
    engine = engine_with()
    engine.process_alert(alert(1))
    for _ in range(3):
        answer_all(engine, REFUSED)
        later(engine, 30 * MINUTE)
    [dead] = engine.memory.messages.values()
    given_up = undelivered(engine)
    anew = Redelivery(channel_id="floor", message_id=dead.message_id, asked_at=1)
    engine.apply_control(anew)
    again = undelivered(engine)

    assert (dead.outcome, given_up) == ("dead", {"floor": UndeliveredMessages(None, 1)})
    assert again["floor"].dead == 0 and again["floor"].waiting_since is not None


def test_who_restores_the_records_says_the_same() -> None:
    engine = engine_with()
    kept = [*engine.memory.channels.values(), *engine.process_alert(alert(1))]
    for _ in range(3):
        for one in engine.begin_attempts([]).calls:
            kept += engine.record_answer(one, REFUSED)
        kept += of_kind(TickTime, later(engine, 30 * MINUTE))
    other = engine_with()
    newest = {one.key: decode_record(encode_record(one) or b"") for one in kept}
    other.restore(newest.values())

    said = other.memory.summarise_undelivered(NOON)
    assert (
        said == engine.memory.summarise_undelivered(NOON) == {"floor": UndeliveredMessages(dead=1)}
    )


def test_a_heartbeat_that_came_too_late_is_not_given_up() -> None:
    engine = engine_with(channel(heartbeat=True))
    later(engine, 10 * MINUTE)
    for one in [*engine.memory.waiting.values()]:
        engine.memory.remember(structs.replace(one, outcome="dead"))
        assert one.kind == "heartbeat"

    assert engine.memory.summarise_undelivered(NOON) == {"floor": NOTHING}
