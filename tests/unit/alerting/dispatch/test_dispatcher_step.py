"""The dispatcher's step: nothing is called before it is stored, and nothing that was stored is
forgotten. The receiver is real, Kafka is not here."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.controls import AlertControl
from alerting.deliver.state.records import (
    GoneAddress,
    WebhookMessage,
    decode_record,
    encode_record,
    record_key,
)
from alerting.deliver.state.routing import DeliveryRules
from alerting.deliver.step import ALERTS, CONTROLS, DELIVERIES, TICKS, Dispatcher, webhook_calls
from runtime.outbound.addresses import parse_networks
from runtime.outbound.caller import OutboundCaller
from runtime.processor.step import Input, Output
from tally.alerts.message import Alert
from tally.errors import BadSettings, UnrecoverableError
from tests.unit.alerting.deliver.deliveries import NOON, SECOND, Town, alert, channel
from tests.unit.alerting.webhooks.receivers import Got, receiver, status

LOOPBACK = parse_networks("127.0.0.0/8")


def keys(names: Sequence[str]) -> list[bytes]:
    if names != ("floor",):
        raise BadSettings(f"no secret {names}")
    return [b"k" * 32]


@pytest.fixture
def make() -> Iterator[Callable[[], Dispatcher]]:
    made: list[Dispatcher] = []

    def begin() -> Dispatcher:
        calls = webhook_calls(OutboundCaller(LOOPBACK, keys))
        made.append(
            Dispatcher(
                calls, lambda n, memories: DeliveryEngine(DeliveryRules(), Town(), n, memories)
            )
        )
        return made[-1]

    yield begin
    for one in made:
        one.close()


def record(topic: str, value: Any, partition: int = 0) -> Input:
    content = value if isinstance(value, bytes) else msgspec.json.encode(value)
    # Controls have keys of their own.
    return Input(topic, partition, 0, NOON, getattr(value, "key", "key").encode(), content)


def tick(n: int) -> Input:
    return record(TICKS, {"n": n, "at": NOON + n * 60 * SECOND, "through": {"more": 1}})


def state(outputs: Sequence[Output]) -> list[Input]:
    """The outputs as they are read back."""
    return [
        Input(one.topic, one.partition, number, NOON, one.key, one.value)
        for number, one in enumerate(outputs)
    ]


def begun(step: Dispatcher, port: int, *more: Alert | AlertControl) -> list[Output]:
    """All outputs of a transaction with a channel and these."""
    at = channel(url=f"http://127.0.0.1:{port}/")
    records = [record(CONTROLS, at), tick(1)]
    records += [record(ALERTS if isinstance(one, Alert) else CONTROLS, one) for one in more]
    return [*(out for one in records for out in step.process(one)), *step.before_commit()]


def outcomes(outputs: Sequence[Output]) -> list[str]:
    """What came of the messages among outputs."""
    kept = [decode_record(one.value or b"") for one in outputs]
    return [one.outcome for one in kept if isinstance(one, WebhookMessage)]


def wait_for(ready: Callable[[], Any]) -> Any:
    waiting = retry(
        retry=retry_if_result(lambda found: not found),
        stop=stop_after_delay(10),
        wait=wait_fixed(0.02),
    )
    return waiting(ready)()


def test_nothing_is_called_before_its_attempt_is_stored(make: Callable[[], Dispatcher]) -> None:
    step = make()
    with receiver(status(204)) as (port, calls):
        outputs = begun(step, port, alert())
        assert calls == []
        step.on_commit()
        found = wait_for(lambda: [*step.before_commit()])

    assert {one.topic for one in outputs} == {DELIVERIES}
    assert (len(calls), outcomes(found)) == (1, ["delivered"])


def test_a_transaction_that_was_aborted_calls_nobody(make: Callable[[], Dispatcher]) -> None:
    step = make()
    with receiver(status(204)) as (port, calls):
        begun(step, port, alert())
        step.restore([])
        step.on_commit()
        step.process(tick(2))
        step.before_commit()
        step.on_commit()

    assert calls == []


def test_whoever_restores_the_state_calls_again_with_the_same_key_and_bytes(
    make: Callable[[], Dispatcher],
) -> None:
    def lost(handler: Any, _got: Got) -> None:
        handler.close_connection = True

    first, second = make(), make()
    with receiver(lost) as (port, calls):
        outputs = begun(first, port, alert())
        first.on_commit()
        wait_for(lambda: calls)
        second.restore(state(outputs))
        second.process(tick(2))
        second.before_commit()
        second.on_commit()
        wait_for(lambda: len(calls) > 1)

    one, other = calls
    assert one.body == other.body
    assert one.headers["webhook-id"] == other.headers["webhook-id"]


def test_an_answer_of_a_partition_that_was_given_away_is_dropped(
    make: Callable[[], Dispatcher],
) -> None:
    step = make()
    with receiver(status(204)) as (port, calls):
        begun(step, port, alert())
        step.on_commit()
        step.restore([])
        wait_for(lambda: calls)
        found = [out for _ in range(20) for out in step.before_commit()]

    assert found == []


def test_a_record_that_nobody_understands_keeps_nobody_else_from_being_told(
    make: Callable[[], Dispatcher],
) -> None:
    step = make()
    with receiver(status(204)) as (port, calls):
        begun(step, port)
        for topic in (ALERTS, CONTROLS, TICKS):
            for value in (b"", b"{}", b"\xff", b'{"is": "channel"}', b"[" * 10_000):
                assert [*step.process(record(topic, value))] == []
        assert [*step.process(Input(CONTROLS, 0, 0, NOON, b"channel|floor", None))] == []
        step.process(record(ALERTS, alert()))
        step.before_commit()
        step.on_commit()
        wait_for(lambda: calls)


def test_a_state_of_another_version_is_refused(make: Callable[[], Dispatcher]) -> None:
    with pytest.raises(UnrecoverableError, match="another version"):
        make().restore([Input(DELIVERIES, 0, 0, NOON, b"key", b'{"is": "newer"}')])


def test_a_secret_that_is_missing_blocks_a_message_and_ends_nothing(
    make: Callable[[], Dispatcher],
) -> None:
    step = make()
    with receiver(status(204)) as (port, calls):
        at = channel(url=f"http://127.0.0.1:{port}/", secrets=("other",))
        for one in (record(CONTROLS, at), tick(1), record(ALERTS, alert())):
            step.process(one)
        step.before_commit()
        step.on_commit()
        found = wait_for(lambda: [*step.before_commit()])

    message = decode_record(found[0].value or b"")
    assert isinstance(message, WebhookMessage)
    assert (calls, message.is_blocked, "other" in message.cause) == ([], True, True)
    assert message.outcome == "waiting"


def test_what_was_settled_before_an_alert_holds_though_its_turn_comes_later(
    make: Callable[[], Dispatcher],
) -> None:
    step = make()
    step.restore([])
    assert step.process(record(ALERTS, alert())) != ()
    assert outcomes(step.process(record(ALERTS, alert(2)))) == []

    step = Dispatcher(
        webhook_calls(OutboundCaller(LOOPBACK, keys)),
        lambda number, memories: DeliveryEngine(DeliveryRules(), Town(), number, memories),
        foreseen=lambda: [record(CONTROLS, channel()), record(CONTROLS, b"{}")],
    )
    step.restore([])

    assert outcomes(step.process(record(ALERTS, alert(2)))) == ["waiting"]
    step.close()


def test_a_tick_says_up_to_where_there_are_rules() -> None:
    learned: list[int] = []
    calls = webhook_calls(OutboundCaller(LOOPBACK, keys))
    step = Dispatcher(
        calls,
        lambda n, memories: DeliveryEngine(DeliveryRules(), Town(), n, memories),
        learn=learned.append,
    )

    step.process(record(TICKS, {"n": 1, "at": NOON, "rules_until": 7}))
    step.process(tick(2))
    step.close()

    assert learned == [7, 0]


def test_an_address_that_was_gone_stays_so_for_whoever_reads_how_its_channel_came_to_be() -> None:
    older, newer = channel(least_severity="critical"), channel()
    gone = GoneAddress(channel="floor", url=newer.url, at=NOON)
    step = Dispatcher(
        webhook_calls(OutboundCaller(LOOPBACK, keys)),
        lambda n, memories: DeliveryEngine(DeliveryRules(), Town(), n, memories),
        foreseen=lambda: [record(CONTROLS, older), record(CONTROLS, newer)],
    )
    kept = [Output(DELIVERIES, record_key(one), encode_record(one), 0) for one in (newer, gone)]

    step.restore(state(kept))

    assert outcomes(step.process(record(ALERTS, alert()))) == ["dead"]
    step.close()
