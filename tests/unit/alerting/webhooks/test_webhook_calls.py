"""The calls under way: none waits for another one's receiver or name."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from alerting.deliver.state.attempts import MAX_ADDRESS_CALLS
from alerting.deliver.state.records import WebhookMessage
from alerting.deliver.step import webhook_calls
from runtime.outbound.addresses import parse_networks
from runtime.outbound.caller import OutboundAnswer, OutboundCaller
from runtime.outbound.step import PendingCalls, PlacedCall
from tests.unit.alerting.deliver.test_delivery_attempts import message
from tests.unit.alerting.dispatch.test_dispatcher_step import wait_for
from tests.unit.alerting.webhooks.receivers import receiver, status

Calls = PendingCalls[WebhookMessage, OutboundAnswer]


@contextmanager
def calling() -> Iterator[Calls]:
    calls = webhook_calls(OutboundCaller(parse_networks("127.0.0.0/8"), lambda _names: [b"k" * 32]))
    yield calls
    calls.close()


def begin(calls: Calls, number: int, url: str) -> None:
    told = message(channel="office", message_id=f"alrt_{number}_confirmed", url=url)
    calls.begin(PlacedCall(0, told, ("a",)))


def test_names_that_nobody_looks_up_hold_up_no_other_receiver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_go, real = Event(), socket.getaddrinfo

    def look_up(host: Any, *rest: Any, **more: Any) -> Any:
        if "hanging" in str(host):
            let_go.wait(30)
        return real(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with receiver(status(204)) as (port, _), calling() as calls:
        # All that two channels may have under way.
        for number in range(2 * MAX_ADDRESS_CALLS):
            begin(calls, number, f"https://hanging{number % 2}.test/")
        begin(calls, 99, f"http://127.0.0.1:{port}/")
        try:
            [(first, answer)] = wait_for(calls.take_answers)
        finally:
            let_go.set()

    assert (first.call.message_id, answer.status) == ("alrt_99_confirmed", 204)
