"""What is over leaves the state, and the topic in which people have settled it; what was settled
before is not looked at for ever."""

import time
from collections.abc import Iterable

import pytest
from msgspec import structs

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.controls import (
    Acknowledgement,
    AlertControl,
    Redelivery,
    Silence,
    Snooze,
)
from alerting.deliver.state.records import decode_record
from alerting.deliver.state.routing import DeliveryRules
from alerting.deliver.step import ALERTS, CONTROLS, DELIVERIES, TICKS, Dispatcher, webhook_calls
from runtime.outbound.caller import OutboundCaller
from runtime.processor.step import Input, Output
from tests.support.stack.nominal_processor import lowest_ratio
from tests.unit.alerting.deliver.deliveries import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    Town,
    alert,
    channel,
    decisions,
    end_of,
    engine_with,
    later,
    messages,
)
from tests.unit.alerting.dispatch.test_dispatcher_step import keys, record, state, tick

DAY = 24 * HOUR
YEARS_AGO = Silence(silence_id="old", starts=0, ends=NOON - 700 * DAY)
IN_FORCE = Silence(silence_id="new", starts=NOON - HOUR, ends=NOON + 10 * DAY)
SNOOZED = Snooze(alert_id=alert(7).alert_id, store_id="367", until=NOON - 3 * DAY)


def dispatcher(*foreseen: Input) -> Dispatcher:
    return Dispatcher(
        webhook_calls(OutboundCaller((), keys)),
        lambda n, memories: DeliveryEngine(DeliveryRules(), Town(), n, memories),
        foreseen=lambda: foreseen,
    )


def deleted(outputs: Iterable[Output]) -> dict[str, list[bytes | None]]:
    """Keys of deleted records by topic."""
    found: dict[str, list[bytes | None]] = {CONTROLS: [], DELIVERIES: []}
    for one in outputs:
        if one.value is None:
            found[one.topic].append(one.key)
    return found


@pytest.mark.parametrize("how", ["ended", "retracted"])
def test_what_was_held_and_is_over_is_not_walked_through_any_more(how: str) -> None:
    engine = engine_with()
    engine.apply_control(Silence(silence_id="s", starts=NOON, ends=NOON + 30 * DAY))
    for number in range(1, 2_001):
        engine.process_alert(alert(number))
        over = alert(number, state="retracted")
        engine.process_alert(over if how == "retracted" else end_of(alert(number), 10_000 + number))

    assert len(engine.memory.held) == 0


def test_a_tick_costs_the_same_however_much_was_held_and_is_over() -> None:
    def seconds(count: int) -> float:
        engine = engine_with()
        engine.apply_control(Silence(silence_id="s", starts=NOON, ends=NOON + 30 * DAY))
        for number in range(count):
            engine.process_alert(alert(number))
            engine.process_alert(alert(number, state="retracted"))
        begun = time.process_time()
        for _ in range(20):
            later(engine, 5 * SECOND)
        return time.process_time() - begun

    found = lowest_ratio(lambda: seconds(4_000), lambda: max(seconds(10), 0.001), 10)

    assert found < 10


def test_an_end_that_is_taken_back_puts_its_raise_among_the_held_ones_again() -> None:
    engine = engine_with()
    engine.apply_control(Silence(silence_id="s", starts=NOON, ends=NOON + HOUR))
    engine.process_alert(alert(1))
    engine.process_alert(end_of(alert(1), 2))
    engine.process_alert(end_of(alert(1), 2, state="retracted"))

    assert [*engine.memory.held] == [("floor", alert(1).alert_id)]
    assert [one.kind for one in messages(later(engine, HOUR))] == ["alert"]


def test_controls_that_are_over_leave_the_state_and_the_topic_a_day_later() -> None:
    step = dispatcher()
    for one in (channel(), SNOOZED, structs.replace(IN_FORCE, ends=NOON + HOUR)):
        step.process(record(CONTROLS, one))
    outputs = [*step.process(tick(1))]
    outputs += step.process(record(TICKS, {"n": 2, "at": NOON + 3 * DAY}))
    step.close()

    gone = deleted(outputs)
    expected = [b"silence|new", f"snooze|{SNOOZED.alert_id}".encode()]
    assert sorted(gone[CONTROLS]) == expected  # type: ignore[type-var]
    assert sorted(gone[DELIVERIES]) == [b"control|" + key for key in expected]  # type: ignore[type-var]


def test_an_acknowledgement_stays_as_long_as_its_alert_is_open() -> None:
    engine = engine_with()
    engine.process_alert(alert(1))
    noted = Acknowledgement(alert_id=alert(1).alert_id, store_id="367", at=NOON, by="anna")
    engine.apply_control(noted)
    later(engine, 5 * DAY)
    kept = dict(engine.memory.acknowledged)
    engine.process_alert(end_of(alert(1), 2))
    later(engine, 2 * DAY)

    assert (kept, engine.memory.acknowledged) == ({noted.alert_id: noted}, {})


def test_what_ended_long_ago_is_not_foreseen_and_is_deleted() -> None:
    many = [structs.replace(YEARS_AGO, silence_id=f"old-{number}") for number in range(1_000)]
    settled: list[AlertControl] = [channel(), IN_FORCE, SNOOZED, *many]
    step = dispatcher(tick(1), *(record(CONTROLS, one) for one in settled))
    step.restore([])
    known = [*step._engine(0).memory.silences.values()]
    outputs = [*step.process(record(ALERTS, alert(1)))]
    step.close()

    assert known == [IN_FORCE]
    assert len(deleted(outputs)[CONTROLS]) == 1_001
    made = [decode_record(one.value) for one in outputs if one.value is not None]
    assert decisions(made) == [("held", "silence")]


def test_an_order_that_was_carried_out_leaves_its_topic() -> None:
    asked = Redelivery(channel_id="floor", message_id="grp_1", asked_at=NOON)
    step = dispatcher()
    step.process(record(CONTROLS, channel()))
    outputs = [*step.process(record(CONTROLS, asked))]
    step.close()

    assert deleted(outputs)[CONTROLS] == [b"redeliver|floor|grp_1"]


def test_the_newest_tick_holds_before_the_first_alert_whatever_the_state_says() -> None:
    before = dispatcher()
    kept = [
        out
        for one in (record(CONTROLS, channel(max_age=3_600)), tick(1))
        for out in before.process(one)
    ]
    before.close()
    morning = record(TICKS, {"n": 99, "at": NOON + 5 * HOUR})
    step = dispatcher(morning)
    step.restore(state(kept))

    outputs = [*step.process(record(ALERTS, alert(1, at=NOON + MINUTE)))]
    step.close()

    made = [decode_record(one.value) for one in outputs if one.value is not None]
    assert decisions(made) == [("suppressed", "late")]
