"""Open alerts that nobody has taken on are sent again, and told to a second channel."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import structs

from alerting.deliver.engine.engine import DeliveryEngine
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
    desk_with,
    end_of,
    later,
)

RAISED = alert(1)
REPEATING = channel(repeat_after=1_800)
ESCALATING = channel(escalate=Escalation(after=900, channel="boss"))
BOSS = channel("boss", rules=(), url="https://boss.example/")
ACK = Acknowledgement(alert_id=RAISED.alert_id, store_id="367", at=NOON, by="anna")


def called(desk: DeliveryEngine, minutes: int) -> list[tuple[int, WebhookMessage]]:
    """The calls of so many minutes, each delivered, by their minute after NOON."""
    found = []
    for _ in range(minutes):
        for call in desk.begin_attempts(()).calls:
            desk.record_answer(call, OutboundAnswer(status=204))
            found.append(((desk.memory.time.at - NOON) // MINUTE, call))
        later(desk, MINUTE)
    return found


def minutes(calls: list[tuple[int, WebhookMessage]], channel_id: str = "floor") -> list[int]:
    return [at for at, call in calls if call.channel == channel_id]


def test_an_open_alert_is_sent_again_under_another_id_until_it_ends() -> None:
    desk = desk_with(REPEATING)
    desk.process_alert(RAISED)
    calls = called(desk, 100)
    desk.process_alert(end_of(RAISED, 2))
    calls += called(desk, 100)

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
    desk = desk_with(REPEATING)
    desk.process_alert(RAISED)
    calls = called(desk, 20)
    desk.apply_control(control)
    calls += called(desk, 200)

    assert minutes(calls) == [0]


def test_a_repeat_that_waits_is_withdrawn_when_somebody_takes_the_alert_on() -> None:
    desk = desk_with(REPEATING)
    desk.process_alert(RAISED)
    called(desk, 1)
    later(desk, 30 * MINUTE)
    desk.apply_control(ACK)

    assert called(desk, 5) == []
    assert [one.outcome for one in desk.memory.messages.values()] == ["delivered", "withdrawn"]


def test_quiet_hours_hold_a_repeat_and_one_is_sent_behind_them() -> None:
    # In Rome 13:00 to 13:20 is told, and the rest of the hour is quiet.
    quiet = (QuietHours("mon-sun", "13:20", "15:00"),)
    desk = desk_with(structs.replace(REPEATING, quiet=quiet))
    desk.process_alert(RAISED)

    assert minutes(called(desk, 149)) == [0, 120]


def test_an_alert_that_nobody_takes_on_is_told_to_the_second_channel_with_its_end() -> None:
    desk = desk_with(ESCALATING, BOSS)
    desk.process_alert(RAISED)
    desk.process_alert(alert(2, store_id="368"))
    desk.apply_control(structs.replace(ACK, alert_id=alert(2).alert_id))
    calls = called(desk, 60)
    desk.process_alert(end_of(RAISED, 3))
    calls += called(desk, 5)

    assert minutes(calls, "boss") == [15, 60]
    told = [json.loads(call.body)["data"] for _, call in calls if call.channel == "boss"]
    assert [one["edge"] for one in told] == ["raise", "clear"]
    assert {call.url for _, call in calls if call.channel == "boss"} == {BOSS.url}


def test_an_escalation_is_not_too_old_for_the_second_channel() -> None:
    slow = channel(escalate=Escalation(after=3 * 3_600, channel="boss"))
    desk = desk_with(slow, BOSS)
    desk.process_alert(RAISED)

    assert minutes(called(desk, 200), "boss") == [180]


def test_who_restores_the_records_repeats_and_escalates_as_before() -> None:
    def run(restores: bool) -> list[tuple[int, str, str]]:
        desk = desk_with(structs.replace(ESCALATING, repeat_after=1_200), BOSS)
        stored = {record_key(one): encode_record(one) for one in desk.memory.channels.values()}
        found = []
        kept: list[Any] = [desk.memory.time, *desk.process_alert(RAISED)]
        for _ in range(90):
            begun = desk.begin_attempts(())
            kept += begun.records
            for call in begun.calls:
                kept += desk.record_answer(call, OutboundAnswer(status=204))
                at = (desk.memory.time.at - NOON) // MINUTE
                found.append((at, call.channel, call.message_id))
            kept += later(desk, MINUTE)
            if restores:
                for one in kept:
                    stored.pop(record_key(one), None)
                    stored[record_key(one)] = encode_record(one)
                kept = []
                desk.restore(decode_record(value) for value in stored.values() if value)
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
