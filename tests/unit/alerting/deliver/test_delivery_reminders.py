"""Open alerts that nobody has taken on are sent again, and told to a second channel."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import structs

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.clock_times import QuietHours
from alerting.deliver.state.controls import (
    Acknowledgement,
    Escalation,
    Silence,
    Snooze,
    decode_control,
)
from alerting.deliver.state.records import WebhookMessage, decode_record, encode_record, record_key
from runtime.outbound.caller import OutboundAnswer
from tests.unit.alerting.deliver.deliveries import (
    HOUR,
    MINUTE,
    NOON,
    alert,
    channel,
    end_of,
    engine_with,
    later,
)

RAISED = alert(1)
REPEATING = channel(repeat_after=1_800)
ESCALATING = channel(escalate=Escalation(after=900, channel="boss"))
BOSS = channel("boss", rules=(), url="https://boss.example/")
ACK = Acknowledgement(alert_id=RAISED.alert_id, store_id="367", at=NOON, by="anna")


def called(engine: DeliveryEngine, minutes: int) -> list[tuple[int, WebhookMessage]]:
    """The calls of so many minutes, each delivered, by their minute after NOON."""
    found = []
    for _ in range(minutes):
        for call in engine.begin_attempts(()).calls:
            engine.record_answer(call, OutboundAnswer(status=204))
            found.append(((engine.memory.time.at - NOON) // MINUTE, call))
        later(engine, MINUTE)
    return found


def minutes(calls: list[tuple[int, WebhookMessage]], channel_id: str = "floor") -> list[int]:
    return [at for at, call in calls if call.channel == channel_id]


def test_an_open_alert_is_sent_again_under_another_id_until_it_ends() -> None:
    engine = engine_with(REPEATING)
    engine.process_alert(RAISED)
    calls = called(engine, 100)
    engine.process_alert(end_of(RAISED, 2))
    calls += called(engine, 100)

    assert minutes(calls) == [0, 30, 60, 90, 100]
    assert len({call.message_id for _, call in calls}) == 5
    bodies = [json.loads(call.body) for _, call in calls[:4]]
    assert {body["data"]["alert_id"] for body in bodies} == {RAISED.alert_id}
    assert ["repeated_at" in body["data"] for body in bodies] == [False, True, True, True]


@pytest.mark.parametrize(
    "control",
    [
        ACK,
        Snooze(alert_id=RAISED.alert_id, store_id="367", until=NOON + 10 * HOUR),
        Silence(silence_id="s", starts=NOON + MINUTE, ends=NOON + 10 * HOUR),
        channel(repeat_after=0),
        channel(repeat_after=1_800, enabled=False),
    ],
)
def test_an_alert_that_somebody_looks_after_is_not_sent_again(control: Any) -> None:
    engine = engine_with(REPEATING)
    engine.process_alert(RAISED)
    calls = called(engine, 20)
    engine.apply_control(control)
    calls += called(engine, 200)

    assert minutes(calls) == [0]


def test_a_repeat_that_waits_is_withdrawn_when_somebody_takes_the_alert_on() -> None:
    engine = engine_with(REPEATING)
    engine.process_alert(RAISED)
    called(engine, 1)
    later(engine, 30 * MINUTE)
    engine.apply_control(ACK)

    assert called(engine, 5) == []
    assert [one.outcome for one in engine.memory.messages.values()] == ["delivered", "withdrawn"]


def test_quiet_hours_hold_a_repeat_and_one_is_sent_behind_them() -> None:
    # In Rome 13:00 to 13:20 is told, and the rest of the hour is quiet.
    quiet = (QuietHours("mon-sun", "13:20", "15:00"),)
    engine = engine_with(structs.replace(REPEATING, quiet=quiet))
    engine.process_alert(RAISED)

    assert minutes(called(engine, 149)) == [0, 120]


def test_an_alert_that_nobody_takes_on_is_told_to_the_second_channel_with_its_end() -> None:
    engine = engine_with(ESCALATING, BOSS)
    engine.process_alert(RAISED)
    engine.process_alert(alert(2, store_id="368"))
    engine.apply_control(structs.replace(ACK, alert_id=alert(2).alert_id))
    calls = called(engine, 60)
    engine.process_alert(end_of(RAISED, 3))
    calls += called(engine, 5)

    assert minutes(calls, "boss") == [15, 60]
    told = [json.loads(call.body)["data"] for _, call in calls if call.channel == "boss"]
    assert [one["edge"] for one in told] == ["raise", "clear"]
    assert {call.url for _, call in calls if call.channel == "boss"} == {BOSS.url}


def test_an_escalation_is_not_too_old_for_the_second_channel() -> None:
    slow = channel(escalate=Escalation(after=3 * 3_600, channel="boss"))
    engine = engine_with(slow, BOSS)
    engine.process_alert(RAISED)

    assert minutes(called(engine, 200), "boss") == [180]


def test_who_restores_the_records_repeats_and_escalates_as_before() -> None:
    def run(restores: bool) -> list[tuple[int, str, str]]:
        engine = engine_with(structs.replace(ESCALATING, repeat_after=1_200), BOSS)
        stored = {record_key(one): encode_record(one) for one in engine.memory.channels.values()}
        found = []
        kept: list[Any] = [engine.memory.time, *engine.process_alert(RAISED)]
        for _ in range(90):
            begun = engine.begin_attempts(())
            kept += begun.records
            for call in begun.calls:
                kept += engine.record_answer(call, OutboundAnswer(status=204))
                at = (engine.memory.time.at - NOON) // MINUTE
                found.append((at, call.channel, call.message_id))
            kept += later(engine, MINUTE)
            if restores:
                for one in kept:
                    stored.pop(record_key(one), None)
                    stored[record_key(one)] = encode_record(one)
                kept = []
                engine.restore(decode_record(value) for value in stored.values() if value)
        return found

    plain = run(restores=False)

    assert [at for at, _, _ in plain] == [0, 15, 20, 40, 60, 80]
    assert run(restores=True) == plain


@pytest.mark.parametrize(
    "wrong",
    [
        {"repeat_after": -1},
        {"escalate": {"after": 5, "channel": "boss"}},
        {"escalate": {"after": 900}},
        {"escalate": {"after": 900, "channel": "floor"}},
    ],
)
def test_an_escalation_that_cannot_be_is_refused_by_its_field(wrong: dict[str, Any]) -> None:
    told = {**msgspec.to_builtins(channel()), **wrong}

    with pytest.raises(msgspec.ValidationError, match=r"escalate|repeat_after|channel"):
        decode_control(msgspec.json.encode(told))
