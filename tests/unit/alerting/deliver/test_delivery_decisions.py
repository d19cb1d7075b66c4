"""What is decided about an alert, once, and what its later states and its end follow."""

from typing import Any

import pytest
from msgspec import structs

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.clock_times import QuietHours
from alerting.deliver.state.controls import Acknowledgement, Silence, Snooze
from alerting.deliver.state.records import DeliveryDecision, WebhookMessage
from runtime.outbound.caller import OutboundAnswer
from tests.unit.alerting.deliver.deliveries import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    URL,
    alert,
    channel,
    decisions,
    end_of,
    engine_with,
    later,
    messages,
)

SENT, DELIVERED = [("send", "")], OutboundAnswer(status=204)
NIGHT = (QuietHours("mon-sun", "22:00", "06:00"),)


def silence(ends: int = NOON + HOUR, **changed: Any) -> Silence:
    return structs.replace(Silence(silence_id="lunch", starts=NOON, ends=ends), **changed)


def called(engine: DeliveryEngine, answer: OutboundAnswer = DELIVERED) -> list[str]:
    """Ids of the messages whose turn it is; each gets the answer."""
    calls = engine.begin_attempts(()).calls
    for message in calls:
        engine.record_answer(message, answer)
    return [message.message_id for message in calls]


def test_a_state_has_its_message_before_anything_is_called() -> None:
    raised = alert()

    message, decision = engine_with().process_alert(raised)

    assert isinstance(message, WebhookMessage) and isinstance(decision, DeliveryDecision)
    assert message.message_id == f"alrt_{raised.alert_id[:40]}_provisional"
    assert (message.url, message.attempts, message.outcome) == (URL, 0, "waiting")
    assert decision.message == message.message_id
    assert decisions([decision]) == SENT


def test_a_state_that_comes_again_changes_nothing() -> None:
    engine = engine_with()
    engine.process_alert(alert())

    assert engine.process_alert(alert()) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"rules": ("another-rule",)},
        {"rules": ()},
        {"stores": ("368",)},
        {"least_severity": "critical"},
        {"enabled": False},
    ],
)
def test_a_channel_takes_what_it_has_asked_for(changed: dict[str, Any]) -> None:
    assert engine_with(channel(**changed)).process_alert(alert()) == []


@pytest.mark.parametrize(
    ("control", "why"),
    [
        (silence(), "silence"),
        (silence(kind="maintenance", stores=("367",)), "maintenance"),
        (silence(rules=("queue-too-long",)), "silence"),
        (silence(rules=("another-rule",)), ""),
        (silence(stores=("368",)), ""),
        (silence(ends=NOON), ""),
        (silence(starts=NOON + 1), ""),
        (Snooze(alert_id=alert().alert_id, store_id="367", until=NOON + 1), "snooze"),
        (Snooze(alert_id=alert().alert_id, store_id="367", until=NOON), ""),
        (Acknowledgement(alert_id=alert().alert_id, store_id="367", at=NOON, by="anna"), ""),
    ],
)
def test_what_is_silenced_is_held(control: Silence | Snooze, why: str) -> None:
    engine = engine_with()
    engine.apply_control(control)

    assert decisions(engine.process_alert(alert())) == [("held" if why else "send", why)]


def test_quiet_hours_go_by_the_clock_of_the_store() -> None:
    # 22:00 in Rome, 21:00 UTC.
    engine = engine_with(channel(quiet=NIGHT), at=NOON + 9 * HOUR)

    assert decisions(engine.process_alert(alert(at=NOON + 9 * HOUR))) == [("held", "quiet")]


@pytest.mark.parametrize("state", ["confirmed", "retracted"])
def test_what_follows_a_raise_that_went_out_waits_for_the_end_of_quiet_hours(state: str) -> None:
    engine = engine_with(channel(quiet=NIGHT), at=NOON + 9 * HOUR - 1)
    engine.process_alert(alert(at=NOON + 9 * HOUR))
    called(engine)
    later(engine, SECOND)

    [message] = messages(engine.process_alert(alert(state=state)))

    assert message.due_at == NOON + 17 * HOUR


def test_a_retraction_follows_its_raise_through_silence_filters_and_a_retired_channel() -> None:
    engine = engine_with()
    engine.process_alert(alert())
    engine.apply_control(silence())
    engine.apply_control(channel(rules=(), enabled=False, url="https://elsewhere.example/"))

    [message] = messages(engine.process_alert(alert(state="retracted")))

    assert (message.url, message.due_at) == (URL, NOON)


def test_an_end_follows_its_raise_to_its_address_when_the_rule_names_the_channel_no_more() -> None:
    engine = engine_with()
    engine.process_alert(alert())
    engine.apply_control(channel(rules=(), url="https://elsewhere.example/"))

    [message] = messages(engine.process_alert(end_of(alert(), 2)))

    assert (message.url, message.lanes) == (URL, (alert().alert_id,))


def test_what_was_held_or_suppressed_is_not_taken_back() -> None:
    engine = engine_with()
    engine.apply_control(silence())
    engine.process_alert(alert())

    assert decisions(engine.process_alert(alert(state="retracted"))) == [("held", "followed")]
    assert engine_with().process_alert(alert(state="retracted")) == []


@pytest.mark.parametrize("held", [True, False])
def test_no_end_goes_out_without_its_raise(held: bool) -> None:
    engine = engine_with()
    engine.apply_control(silence(ends=NOON + HOUR if held else NOON + 1))
    if held:
        engine.process_alert(alert())

    verdict = "held" if held else "suppressed"
    assert decisions(engine.process_alert(end_of(alert(), 2))) == [(verdict, "raise not sent")]


def test_a_state_that_a_channel_leaves_out_is_told_when_it_is_the_first() -> None:
    engine = engine_with(channel(leaves_out=("confirmed",)))

    assert decisions(engine.process_alert(alert(1, state="confirmed"))) == SENT
    engine.process_alert(alert(2))
    assert decisions(engine.process_alert(alert(2, state="confirmed"))) == [("send", "left out")]
    assert messages(engine.process_alert(alert(2, state="retracted"))) != []


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"at": NOON - HOUR - 1}, "late"),
        ({"at": NOON - HOUR}, ""),
        ({"at": NOON - 2 * HOUR, "late": True}, "late"),
        ({"backfilled": True}, "backfilled"),
    ],
)
def test_what_is_old_or_made_afterwards_is_suppressed(changed: dict[str, int], why: str) -> None:
    found = decisions(engine_with().process_alert(alert(1, **changed)))

    assert found == [("suppressed" if why else "send", why)]


def test_an_old_end_goes_to_who_has_the_raise() -> None:
    engine = engine_with(channel(most_a_minute=1))
    engine.process_alert(alert())
    later(engine, 50 * HOUR)

    assert decisions(engine.process_alert(end_of(alert(), 2, late=True))) == SENT


def test_messages_of_an_episode_wait_for_each_other_and_for_no_other_episode() -> None:
    engine = engine_with()
    first, other = alert(1), alert(2)
    for one in (first, other, alert(1, state="confirmed"), end_of(first, 3)):
        engine.process_alert(one)

    turns = [called(engine) for _ in range(4)]

    names = [[name.rpartition("_")[2] for name in turn] for turn in turns]
    assert names == [["provisional", "provisional"], ["confirmed"], ["provisional"], []]


def test_a_lane_waits_for_the_next_attempt_and_others_do_not() -> None:
    engine = engine_with()
    engine.process_alert(alert(1))
    engine.process_alert(alert(1, state="retracted"))
    assert len(called(engine, OutboundAnswer())) == 1
    engine.process_alert(alert(2))

    assert called(engine) == [f"alrt_{alert(2).alert_id[:40]}_provisional"]
    later(engine, 7 * SECOND)
    assert [name.rpartition("_")[2] for name in called(engine)] == ["provisional"]
    assert [name.rpartition("_")[2] for name in called(engine)] == ["retracted"]


def test_what_was_refused_for_good_is_neither_ended_nor_taken_back() -> None:
    engine = engine_with()
    engine.process_alert(alert())
    engine.process_alert(end_of(alert(), 2))
    engine.process_alert(alert(state="retracted"))
    for _ in range(3):
        called(engine, OutboundAnswer(status=400))
        later(engine, 3 * MINUTE)

    assert called(engine) == []
    assert engine.memory.waiting == {}


def test_no_more_calls_are_under_way_to_a_channel_than_it_may_have() -> None:
    engine = engine_with(channel(most_a_minute=100))
    for number in range(12):
        engine.process_alert(alert(number))

    calls = engine.begin_attempts(()).calls

    assert len(calls) == 8
    assert engine.begin_attempts(calls).calls == []
    assert len(engine.begin_attempts(calls[:5]).calls) == 3


def test_410_ends_all_calls_to_the_address_until_its_channel_is_set_anew() -> None:
    engine = engine_with()
    engine.process_alert(alert(1))
    engine.process_alert(alert(2))
    first, _second = engine.begin_attempts(()).calls
    engine.record_answer(first, OutboundAnswer(status=410))
    assert engine.memory.waiting == {}

    [gone] = messages(engine.process_alert(alert(3)))
    engine.apply_control(channel())
    [anew] = messages(engine.process_alert(alert(4)))

    assert (gone.outcome, anew.outcome) == ("dead", "waiting")


def test_an_answer_that_is_not_of_the_last_attempt_changes_nothing() -> None:
    engine = engine_with()
    engine.process_alert(alert())
    [first] = engine.begin_attempts(()).calls
    later(engine, 7 * SECOND)
    [second] = engine.begin_attempts(()).calls

    assert engine.record_answer(first, DELIVERED) == []
    assert messages(engine.record_answer(second, DELIVERED))[0].outcome == "delivered"
    assert engine.record_answer(second, OutboundAnswer()) == []
