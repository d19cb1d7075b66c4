"""What goes out when a hold is over, as a group or as numbers; and what a message says."""

import json
from typing import Any

import pytest
from msgspec import structs

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.controls import AlertChannel, Redelivery, Silence
from alerting.deliver.state.records import MAX_BYTES, alert_body, alert_message_id, hash_id
from runtime.outbound.caller import OutboundAnswer
from runtime.outbound.engine import DroppedRecord
from tally.alerts.message import ReadRows
from tests.unit.alerting.deliver.deliveries import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    alert,
    channel,
    decisions,
    end_of,
    engine_with,
    later,
    messages,
    of_kind,
)

LUNCH = Silence(silence_id="lunch", starts=NOON, ends=NOON + HOUR)


def silenced(*channels: AlertChannel) -> DeliveryEngine:
    engine = engine_with(*channels)
    engine.apply_control(LUNCH)
    return engine


def told(body: str) -> list[tuple[str, str]]:
    """Alerts and states of a group."""
    return [(one["alert_id"], one["state"]) for one in json.loads(body)["data"]["alerts"]]


def test_what_is_still_open_when_a_silence_ends_goes_out_in_its_last_state_as_one_group() -> None:
    engine = silenced()
    open_one, confirmed, ended, gone = (alert(number) for number in (1, 2, 3, 4))
    for one in (open_one, confirmed, ended, gone):
        engine.process_alert(one)
    engine.process_alert(structs.replace(confirmed, state="confirmed"))
    engine.process_alert(end_of(ended, 5))
    engine.process_alert(structs.replace(gone, state="retracted"))
    assert messages(later(engine, HOUR - SECOND)) == []

    [group] = messages(later(engine, SECOND))

    assert told(group.body) == [
        (open_one.alert_id, "provisional"),
        (confirmed.alert_id, "confirmed"),
    ]
    assert group.lanes == (open_one.alert_id, confirmed.alert_id)
    assert messages(later(engine, SECOND)) == []


def test_a_single_one_goes_out_under_its_own_key() -> None:
    engine = silenced()
    engine.process_alert(alert())

    [message] = messages(later(engine, HOUR))

    assert (message.kind, message.message_id) == ("alert", alert_message_id(alert()))


@pytest.mark.parametrize(("status", "keys"), [(429, 2), (503, 1)])
def test_an_alert_refused_before_a_silence_comes_in_a_group_only_if_the_refusal_is_certain(
    status: int, keys: int
) -> None:
    engine = engine_with()
    engine.process_alert(alert(1))
    [refused] = engine.begin_attempts(()).calls
    engine.record_answer(refused, OutboundAnswer(status=status))
    engine.apply_control(LUNCH)
    later(engine, 30 * MINUTE)
    assert engine.begin_attempts(()).calls == []
    engine.process_alert(alert(2))
    # Both alerts are released when the silence ends.
    later(engine, HOUR)

    calls = engine.begin_attempts(()).calls

    with_first = [call for call in calls if alert(1).alert_id in call.body]
    assert len({refused.message_id} | {call.message_id for call in with_first}) == keys
    assert [call.kind for call in with_first] == ["group" if keys == 2 else "alert"]


def test_an_end_that_was_held_goes_out_when_its_raise_has() -> None:
    engine = engine_with()
    engine.process_alert(alert())
    engine.apply_control(LUNCH)
    assert decisions(engine.process_alert(end_of(alert(), 2))) == [("held", "silence")]

    [message] = messages(later(engine, HOUR))

    assert message.message_id == alert_message_id(end_of(alert(), 2))


def test_a_raise_whose_end_was_taken_back_is_open_again() -> None:
    engine = silenced()
    engine.process_alert(alert())
    engine.process_alert(end_of(alert(), 2))
    assert messages(later(engine, HOUR)) == []
    engine.process_alert(end_of(alert(), 2, state="retracted"))

    [message] = messages(later(engine, SECOND))

    assert message.message_id == alert_message_id(alert())


def test_a_group_too_long_for_a_body_is_parted_and_what_follows_waits_for_its_part() -> None:
    engine = silenced()
    for number in range(1, 61):
        engine.process_alert(alert(number))

    groups = messages(later(engine, HOUR))
    [after] = messages(engine.process_alert(alert(60, state="retracted")))

    assert len(groups) > 1
    assert all(len(group.body.encode()) <= MAX_BYTES for group in groups)
    assert [one for group in groups for one in told(group.body)] == [
        (alert(number).alert_id, "provisional") for number in range(1, 61)
    ]
    assert after.message_id not in [one.message_id for one in engine.begin_attempts(()).calls]


def test_above_its_cap_a_minute_is_told_by_its_numbers() -> None:
    engine = engine_with(channel(most_a_minute=3))
    found = [decisions(engine.process_alert(alert(number))) for number in range(1, 11)]
    assert [one for [one] in found] == [("send", "")] * 3 + [("suppressed", "storm")] * 7
    assert messages(later(engine, 30 * SECOND)) == []

    [storm] = messages(later(engine, 30 * SECOND))

    assert (storm.kind, json.loads(storm.body)["data"]["alerts"]) == ("summary", 7)
    assert decisions(engine.process_alert(alert(11, at=NOON + MINUTE))) == [("send", "")]
    assert messages(later(engine, MINUTE)) == []


def test_old_alerts_are_told_as_one_message_when_catching_up_is_over() -> None:
    engine = engine_with()
    found = []
    for hour in range(20, 2, -1):
        engine.process_alert(alert(hour, at=NOON - hour * HOUR))
        found += messages(later(engine, 30 * SECOND))
    assert found == []

    [catchup] = messages(later(engine, 2 * MINUTE))

    data = json.loads(catchup.body)["data"]
    assert (catchup.kind, data["why"], data["alerts"]) == ("summary", "late", 18)
    assert messages(later(engine, HOUR)) == []


def test_a_heartbeat_comes_every_five_minutes_and_is_not_called_for_later() -> None:
    engine = engine_with(channel(heartbeat=True))
    beats = [message for _ in range(12 * 5) for message in messages(later(engine, MINUTE))]

    assert len(beats) == 12
    assert len({beat.message_id for beat in beats}) == 12
    assert len({beat.key for beat in beats}) == 1
    later(engine, 4 * MINUTE - SECOND)
    calls = engine.begin_attempts(()).calls
    assert [call.kind for call in calls] == ["heartbeat"]
    later(engine, HOUR)
    assert engine.begin_attempts(()).calls[0].message_id != calls[0].message_id


def test_a_dead_message_is_called_for_again_under_its_key_with_its_bytes() -> None:
    engine = engine_with()
    [made] = messages(engine.process_alert(alert()))
    for _ in range(3):
        [call] = engine.begin_attempts(()).calls
        engine.record_answer(call, OutboundAnswer(status=400))
        later(engine, 3 * MINUTE)
    assert engine.begin_attempts(()).calls == []

    engine.apply_control(Redelivery(channel_id="floor", message_id=made.message_id, asked_at=NOON))
    [again] = engine.begin_attempts(()).calls

    assert (again.message_id, again.body, again.attempts) == (made.message_id, made.body, 1)


@pytest.mark.parametrize("store", ["1.provisional", "367", "a:b"])
def test_a_body_is_of_the_record_alone_and_its_key_has_no_dot(store: str) -> None:
    one = alert(store_id=store)
    body = json.loads(alert_body(one))

    assert body["type"] == "alert.provisional"
    assert body["timestamp"] == one.raised_at
    assert (body["data"]["store_id"], body["data"]["value"]) == (store, 8)
    assert alert_body(one) == alert_body(alert(store_id=store))
    assert "." not in alert_message_id(one) + hash_id("storm", store)


@pytest.mark.parametrize(
    "changed",
    [
        {"subject": "item:" + "%C3%A4" * 10_000},
        {"metric": "m" * 100_000},
        {"evidence_rows": 5_000},
    ],
)
def test_an_alert_too_long_for_a_body_is_told_without_what_its_id_leads_to(
    changed: dict[str, Any],
) -> None:
    rows = changed.pop("evidence_rows", 0)
    one = alert(**changed)
    if isinstance(rows, int) and rows:
        read = (ReadRows("queues", "2026-11-26", 4, 1, 37, "batch"),) * rows
        one = structs.replace(one, evidence=structs.replace(one.evidence, read=read))

    body = alert_body(one)

    assert len(body.encode()) <= MAX_BYTES
    data = json.loads(body)["data"]
    assert (data["shortened"], data["alert_id"]) == (True, one.alert_id)


def test_what_ended_ninety_days_ago_is_kept_no_longer_and_what_goes_on_is() -> None:
    engine = engine_with()
    open_one, ended, gone = (alert(number) for number in (1, 2, 3))
    for one in (open_one, ended, end_of(ended, 4), gone):
        engine.process_alert(one)
    engine.process_alert(structs.replace(gone, state="retracted"))
    while calls := engine.begin_attempts(()).calls:
        for call in calls:
            engine.record_answer(call, OutboundAnswer(status=204))
    assert of_kind(DroppedRecord, later(engine, 89 * 24 * HOUR)) == []

    dropped = {one.topic_key.decode() for one in of_kind(DroppedRecord, later(engine, 48 * HOUR))}

    decided = {key for key in dropped if key.count("|") == 2}
    assert decided == {
        f"floor|{ended.alert_id}|provisional",
        f"floor|{end_of(ended, 4).alert_id}|provisional",
        f"floor|{gone.alert_id}|provisional",
        f"floor|{gone.alert_id}|retracted",
    }
    assert len(dropped - decided) == 4
    engine.process_alert(end_of(open_one, 5))
    engine.process_alert(structs.replace(open_one, state="retracted"))
    assert [one.message_id for one in engine.begin_attempts(()).calls] == [
        alert_message_id(end_of(open_one, 5))
    ]
    assert decisions(engine.process_alert(end_of(ended, 4))) == [("suppressed", "raise not sent")]


@pytest.mark.parametrize("more", range(18_000, 21_000, 50))
def test_no_body_is_longer_than_may_be_however_near_its_alert_comes(more: int) -> None:
    assert len(alert_body(alert(subject="s" * more)).encode()) <= MAX_BYTES
