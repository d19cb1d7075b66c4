"""Faults of our own side and of a receiver's configuration end no message while it can still come
through; an answer counts from its head on."""

from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.attempts import (
    GIVES_UP_AFTER,
    apply_answer,
    begin_attempt,
)
from alerting.deliver.state.routing import DeliveryRules
from alerting.deliver.step import ALERTS, CONTROLS, Dispatcher, webhook_calls
from runtime.outbound.addresses import parse_networks
from runtime.outbound.caller import OutboundAnswer, OutboundCaller
from runtime.outbound.engine import UndeliveredMessages
from runtime.outbound.signing import read_signing_keys
from tests.unit.alerting.deliver.deliveries import (
    MINUTE,
    NOON,
    Town,
    alert,
    channel,
    engine_with,
    later,
)
from tests.unit.alerting.deliver.test_delivery_attempts import message, played
from tests.unit.alerting.dispatch.test_dispatcher_step import record, tick, wait_for
from tests.unit.alerting.webhooks.receivers import Got, receiver, status
from tests.unit.alerting.webhooks.test_webhook_sender import LOOPBACK, called

SECRET = '{"floor": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}'
OWN_FAULT = OutboundAnswer(error="secrets: others may read it", is_refused=True)
FAULTS = [
    OWN_FAULT,
    OutboundAnswer(error="nobody there", is_unsent=True),
    *(OutboundAnswer(status=code) for code in (401, 403, 404)),
]
FAULT_CASES = pytest.mark.parametrize("fault", FAULTS)


@FAULT_CASES
def test_a_fault_that_people_repair_is_retried_for_72_hours(fault: OutboundAnswer) -> None:
    times = played(fault)

    assert (times[-1], len(times) > 10) == (GIVES_UP_AFTER, True)
    assert not apply_answer(begin_attempt(message(), NOON), fault, NOON).may_have_arrived


@pytest.mark.parametrize("code", [300, 301, 307, 400, 409, 413, 422, 499])
def test_a_message_that_the_receiver_rejects_ends_after_three(code: int) -> None:
    assert len(played(OutboundAnswer(status=code))) == 3


@FAULT_CASES
def test_a_blocked_message_holds_its_lane_and_is_counted(fault: OutboundAnswer) -> None:
    engine = engine_with(channel(max_age=10**9))
    engine.process_alert(alert(1))
    engine.process_alert(alert(1, state="retracted"))
    for _ in range(10):
        for call in engine.begin_attempts(()).calls:
            assert call.message_id.endswith("provisional")
            engine.record_answer(call, fault)
        later(engine, 10 * MINUTE)

    is_blocked = fault.is_refused or fault.status is not None
    expected = UndeliveredMessages(NOON, dead=0, blocked=int(is_blocked))
    assert engine.memory.summarise_undelivered(engine.memory.time.at) == {"floor": expected}


def test_a_call_that_never_left_may_be_made_again_at_most_once_for_the_receiver() -> None:
    once = begin_attempt(message(promise="at_most_once"), NOON)

    outcomes = [apply_answer(once, fault, NOON).outcome for fault in FAULTS]

    assert outcomes == ["waiting", "waiting", "dead", "dead", "dead"]


def test_a_secrets_file_that_is_repaired_after_a_day_loses_no_message(tmp_path: Path) -> None:
    file = tmp_path / "secrets.json"
    file.write_text(SECRET)
    file.chmod(0o644)
    calls = webhook_calls(
        OutboundCaller(parse_networks("127.0.0.0/8"), partial(read_signing_keys, file))
    )
    step = Dispatcher(
        calls, lambda n, memories: DeliveryEngine(DeliveryRules(), Town(), n, memories)
    )
    with receiver(status(204)) as (port, got):
        at = channel(url=f"http://127.0.0.1:{port}/", max_age=10**9)
        for one in (record(CONTROLS, at), tick(1), record(ALERTS, alert())):
            step.process(one)
        # A tick an hour, in milliseconds of the engine's clock; nobody waits for it here.
        for hour in range(1, 25):
            step.before_commit()
            step.on_commit()
            wait_for(lambda: not calls.pending_calls() or calls._completed)
            step.process(tick(1 + 60 * hour))
        assert got == []
        file.chmod(0o600)
        for hour in range(25, 33):
            step.process(tick(1 + 60 * hour))
            step.before_commit()
            step.on_commit()
            wait_for(lambda: not calls.pending_calls() or calls._completed)
    step.close()

    assert len(got) == 1


def leave_open(handler: BaseHTTPRequestHandler, _got: Got) -> None:
    """A head that says 200, and a body that never ends."""
    handler.send_response(200)
    handler.send_header("content-length", "100")
    handler.end_headers()
    handler.wfile.write(b"{")
    handler.wfile.flush()
    # Until the caller hangs up.
    handler.connection.settimeout(10)
    handler.rfile.read(1)


def break_off(handler: BaseHTTPRequestHandler, _got: Got) -> None:
    """A head that says 200, and a connection that ends within its body."""
    handler.send_response(200)
    handler.send_header("content-length", "100")
    handler.end_headers()
    handler.wfile.write(b"{")
    handler.close_connection = True


@pytest.mark.parametrize("react", [leave_open, break_off])
def test_a_success_in_the_head_counts_whatever_becomes_of_the_body(react: object) -> None:
    answer, calls = called(react, OutboundCaller(LOOPBACK, seconds=1.0))  # type: ignore[arg-type]

    assert (answer.status, len(calls)) == (200, 1)
