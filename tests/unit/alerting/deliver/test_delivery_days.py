"""Three days of a receiver that is not there, by the clock of ticks; a secret that follows another
meanwhile; and answers that end what is owed."""

import hmac
import json
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.attempts import GIVES_UP_AFTER
from alerting.deliver.state.records import WebhookMessage
from alerting.deliver.state.routing import DeliveryRules
from alerting.deliver.step import ALERTS, CONTROLS, Dispatcher, webhook_calls
from runtime.outbound.addresses import parse_networks
from runtime.outbound.caller import OutboundAnswer, OutboundCaller
from runtime.outbound.signing import read_signing_keys
from tests.unit.alerting.deliver.deliveries import (
    HOUR,
    MINUTE,
    NOON,
    Town,
    alert,
    channel,
    engine_with,
    later,
)
from tests.unit.alerting.dispatch.test_dispatcher_step import record, tick, wait_for
from tests.unit.alerting.webhooks.receivers import Got, receiver, status

AWAY = OutboundAnswer(error="no answer in 15 s")
BUSY = OutboundAnswer(status=429, retry_after=30)
# Of a message its state, and the milliseconds since NOON.
Call = tuple[str, int]


def days(engine: DeliveryEngine, answer: Callable[[int], OutboundAnswer], hours: int) -> list[Call]:
    """The calls of so many hours, a tick every five minutes, each answered by its instant."""
    found: list[Call] = []
    for _ in range(hours * 12):
        for called in engine.begin_attempts(()).calls:
            since = engine.memory.time.at - NOON
            found.append((json.loads(called.body)["type"].removeprefix("alert."), since))
            engine.record_answer(called, answer(since))
        later(engine, 5 * MINUTE)
    return found


def messages_of(engine: DeliveryEngine) -> dict[str, WebhookMessage]:
    """By state, of a single alert."""
    return {key.rsplit("_", 1)[1]: one for key, one in engine.memory.messages.items()}


@pytest.mark.parametrize("hour", [0, 10, 71])
def test_a_retraction_waits_for_its_raise_as_long_as_that_is_called_for(hour: int) -> None:
    engine = engine_with(channel(max_age=10**9))
    engine.process_alert(alert())
    calls = days(engine, lambda _: AWAY, hour)
    engine.process_alert(alert(state="retracted", reason="late_data"))

    calls += days(engine, lambda _: AWAY, 73 - hour)
    calls += days(engine, lambda _: OutboundAnswer(status=204), 24)

    raises = [at for state, at in calls if state == "provisional"]
    [*_, retracted] = [at for state, at in calls if state == "retracted"]
    assert raises[0] == 0 and raises[-1] == GIVES_UP_AFTER
    assert retracted >= raises[-1] and len(raises) < 25
    # Nobody knows whether it has the raise; so it is told that there is none.
    ended = messages_of(engine)
    assert (ended["provisional"].outcome, ended["retracted"].outcome) == ("dead", "delivered")


def test_who_is_back_at_the_very_end_has_it_with_the_last_attempt() -> None:
    engine = engine_with(channel(max_age=10**9))
    engine.process_alert(alert())

    calls = days(engine, lambda at: OutboundAnswer(status=204 if at >= GIVES_UP_AFTER else 503), 80)

    assert calls[-1] == ("provisional", GIVES_UP_AFTER)
    assert messages_of(engine)["provisional"].outcome == "delivered"


def test_who_has_taken_nothing_for_three_days_is_not_told_that_it_was_taken_back() -> None:
    engine = engine_with(channel(max_age=10**9))
    engine.process_alert(alert())
    engine.process_alert(alert(state="retracted", reason="late_data"))

    calls = days(
        engine, lambda at: BUSY if at <= GIVES_UP_AFTER else OutboundAnswer(status=204), 90
    )

    assert {state for state, _ in calls} == {"provisional"}
    assert messages_of(engine)["retracted"].outcome == "dead"
    # As often as it has asked for, and not more often than there are ticks.
    assert len(calls) == GIVES_UP_AFTER // (5 * MINUTE) + 1


@pytest.mark.parametrize("asked", [0.0, 1e-9, 1.0])
def test_who_asks_for_the_next_attempt_at_once_waits_five_seconds(asked: float) -> None:
    engine = engine_with()
    engine.process_alert(alert())
    [called] = engine.begin_attempts(()).calls

    engine.record_answer(called, structs.replace(BUSY, retry_after=asked))

    assert messages_of(engine)["provisional"].due_at - NOON == 5_000


def test_after_days_without_ticks_one_last_attempt_is_made_and_then_what_follows() -> None:
    engine = engine_with(channel(max_age=10**9))
    engine.process_alert(alert())
    engine.process_alert(alert(state="confirmed"))
    [first] = engine.begin_attempts(()).calls
    engine.record_answer(first, AWAY)
    later(engine, 200 * HOUR)

    calls = days(engine, lambda at: AWAY if at == 200 * HOUR else OutboundAnswer(status=204), 2)

    assert [state for state, _ in calls] == ["provisional", "confirmed"]
    assert messages_of(engine)["provisional"].outcome == "dead"


def test_nothing_of_any_kind_is_called_at_an_address_that_wants_no_more() -> None:
    engine = engine_with(channel(digest="07:00", most_a_minute=1, heartbeat=True, max_age=10**9))
    engine.process_alert(alert(1))
    changes = engine.begin_attempts(()).calls
    for called in changes:
        engine.record_answer(called, OutboundAnswer(status=410))
    # Too many, so that a message tells their number; and all of them are in the digest.
    for number in range(2, 9):
        engine.process_alert(alert(number))

    assert changes
    assert days(engine, lambda _: OutboundAnswer(status=204), 30) == []
    told = {one.kind: one.outcome for one in engine.memory.messages.values()}
    assert told == {"alert": "dead", "summary": "dead", "digest": "dead", "heartbeat": "dead"}


def right(secret: bytes, got: Got) -> str:
    """The signature that a call has to have under a secret, by the specification's words."""
    named = (got.headers[f"webhook-{name}"].encode() for name in ("id", "timestamp"))
    digest = hmac.digest(secret, b".".join((*named, got.body)), "sha256")
    return "v1," + b64encode(digest).decode()


def test_a_secret_that_follows_another_between_two_attempts_signs_the_next_beside_it(
    tmp_path: Path,
) -> None:
    old, new, file = b"o" * 32, b"n" * 32, tmp_path / "secrets.json"

    def keep(**secrets: bytes) -> None:
        named = {name: "whsec_" + b64encode(key).decode() for name, key in secrets.items()}
        file.write_text(json.dumps(named), "utf-8")
        file.chmod(0o600)

    keep(old=old)
    calls = webhook_calls(
        OutboundCaller(parse_networks("127.0.0.0/8"), partial(read_signing_keys, file))
    )
    step = Dispatcher(
        calls, lambda n, memories: DeliveryEngine(DeliveryRules(), Town(), n, memories)
    )
    with receiver(status(503)) as (port, got):
        at = channel(url=f"http://127.0.0.1:{port}/", secrets=("old",))
        _taken(step, record(CONTROLS, at), tick(1), record(ALERTS, alert()))
        wait_for(lambda: len(got) == 1)
        keep(old=old, new=new)
        # The message is the one that was made under the old one.
        both = structs.replace(at, secrets=("new", "old"))
        numbers = count(10)

        def is_called_again() -> bool:
            _taken(step, record(CONTROLS, both), tick(next(numbers)))
            return len(got) > 1

        wait_for(is_called_again)
    step.close()

    first, second = got[0], got[1]
    assert first.headers["webhook-signature"] == right(old, first)
    assert second.headers["webhook-signature"] == f"{right(new, second)} {right(old, second)}"
    assert (first.body, first.headers["webhook-id"]) == (
        second.body,
        second.headers["webhook-id"],
    )


def _taken(step: Dispatcher, *records: Any) -> None:
    """A transaction of these records, which is stored."""
    for one in records:
        step.process(one)
    step.before_commit()
    step.on_commit()


def test_a_receiver_that_wants_no_more_is_not_called_again_by_whatever_comes() -> None:
    calls = webhook_calls(OutboundCaller(parse_networks("127.0.0.0/8"), lambda _: [b"k" * 32]))
    step = Dispatcher(
        calls, lambda n, memories: DeliveryEngine(DeliveryRules(), Town(), n, memories)
    )
    with receiver(status(410)) as (port, got):
        at = channel(url=f"http://127.0.0.1:{port}/", heartbeat=True)
        _taken(step, record(CONTROLS, at), tick(1), record(ALERTS, alert()))

        def are_answered() -> bool:
            step.before_commit()
            return not calls.pending_calls()

        wait_for(are_answered)
        came = len(got)
        for number in range(2, 40):
            ended = record(ALERTS, alert(1, state="retracted", reason="late_data"))
            _taken(step, tick(number), record(ALERTS, alert(number)), ended)
        assert calls.pending_calls() == []
    step.close()

    assert came <= 2 and len(got) == came
