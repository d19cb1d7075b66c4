"""How many calls are under way at once, which come first, and what an address that does not answer
may take from the others."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import Event
from threading import enumerate as all_threads
from typing import Any

import pytest

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.attempts import (
    MAX_ADDRESS_CALLS,
    MAX_CALLS,
    OPENS_AFTER,
    CallCapacity,
    CircuitBreakers,
    url_origin,
)
from alerting.deliver.state.records import WebhookMessage
from alerting.deliver.state.routing import DeliveryRules
from alerting.deliver.step import ALERTS, CONTROLS, Dispatcher, webhook_calls
from runtime.outbound.addresses import parse_networks
from runtime.outbound.caller import OutboundAnswer, OutboundCaller
from runtime.outbound.step import PendingCalls, PlacedCall
from runtime.processor.step import Output
from tests.unit.alerting.deliver.deliveries import (
    MINUTE,
    SECOND,
    Town,
    alert,
    channel,
    engine_with,
    later,
)
from tests.unit.alerting.deliver.test_delivery_attempts import message
from tests.unit.alerting.dispatch.test_dispatcher_step import record, tick, wait_for
from tests.unit.alerting.webhooks.receivers import receiver, status

AWAY = OutboundAnswer(error="no answer in 15 s")
TAKEN = OutboundAnswer(status=204)


class HeldCalls(PendingCalls[WebhookMessage, OutboundAnswer]):
    """Calls that end when a test says so."""

    def __init__(self) -> None:
        self.placed: list[PlacedCall[WebhookMessage]] = []
        self.ended: list[tuple[PlacedCall[WebhookMessage], OutboundAnswer]] = []
        self.most = 0

    def begin(self, placed: PlacedCall[WebhookMessage]) -> None:
        self.placed.append(placed)
        self.most = max(self.most, len(self.placed))

    def pending_calls(self) -> list[PlacedCall[WebhookMessage]]:
        return [*self.placed]

    def urls(self) -> list[str]:
        return [one.call.url for one in self.placed]

    def take_answers(self) -> list[tuple[PlacedCall[WebhookMessage], OutboundAnswer]]:
        ended, self.ended = self.ended, []
        return ended

    def end(self, answer: OutboundAnswer) -> None:
        self.ended += [(one, answer) for one in self.placed]
        self.placed = []

    def close(self) -> None: ...


@contextmanager
def dispatching(partitions: int, channels: int) -> Iterator[tuple[Dispatcher, HeldCalls]]:
    """A dispatcher of so many partitions, in which each channel has 40 alerts."""
    calls: Any = HeldCalls()
    step = Dispatcher(
        calls, lambda n, memories: DeliveryEngine(DeliveryRules(), Town(), n, memories)
    )
    for partition in range(partitions):
        for number in range(channels):
            at = channel(f"c{number}", url=f"https://c{number}.example/", most_a_minute=10**6)
            step.process(record(CONTROLS, at, partition))
        step.process(record("ticks", {"n": 1, "at": tick(1).timestamp_ms}, partition))
        for number in range(40):
            step.process(record(ALERTS, alert(1_000 * partition + number), partition))
    yield step, calls


def turn(step: Dispatcher) -> list[Output]:
    outputs = [*step.before_commit()]
    step.on_commit()
    return outputs


@pytest.mark.parametrize("partitions", [4, 32])
def test_calls_at_once_to_an_address_are_bounded_over_all_partitions(partitions: int) -> None:
    with dispatching(partitions, channels=1) as (step, calls):
        for _ in range(5):
            turn(step)

        assert len(calls.placed) == MAX_ADDRESS_CALLS


def test_calls_at_once_are_bounded_for_the_process() -> None:
    with dispatching(4, channels=20) as (step, calls):
        for _ in range(5):
            turn(step)

        assert len(calls.placed) == MAX_CALLS


def test_an_address_that_does_not_answer_is_called_by_one_message_at_a_time() -> None:
    with dispatching(4, channels=2) as (step, calls):
        turn(step)
        for _ in range(OPENS_AFTER):
            mine = [one for one in calls.placed if "c0" in one.call.url]
            calls.ended += [(one, AWAY) for one in mine]
            calls.placed = [one for one in calls.placed if one not in mine]
            turn(step)

        urls = [url_origin(url) for url in calls.urls()]
        assert urls.count("https://c0.example") == 1
        assert urls.count("https://c1.example") == MAX_ADDRESS_CALLS
        calls.end(TAKEN)
        turn(step)
        assert len(calls.placed) == 2 * MAX_ADDRESS_CALLS


def test_a_breaker_closes_with_the_first_answer_about_the_message() -> None:
    breakers = CircuitBreakers()
    for _ in range(OPENS_AFTER):
        breakers.record_answer("https://a.example/x", AWAY)
    opened = breakers.max_calls("https://a.example")
    breakers.record_answer("https://a.example/y", OutboundAnswer(status=400))

    assert (opened, breakers.max_calls("https://a.example")) == (1, MAX_ADDRESS_CALLS)
    assert not CallCapacity(["https://b.example/"] * MAX_CALLS, breakers).reserve(
        message(url="https://a.example/")
    )


@pytest.mark.parametrize("failing", [1_000, 3_000])
def test_a_new_critical_alert_is_called_for_before_all_that_fail(failing: int) -> None:
    engine = engine_with(channel(most_a_minute=10**6, max_age=10**9))
    breakers, under_way = CircuitBreakers(), list[WebhookMessage]()
    for number in range(failing):
        engine.process_alert(alert(number))
    for _ in range(5):
        for called in under_way:
            breakers.record_answer(called.url, AWAY)
            engine.record_answer(called, AWAY)
        later(engine, 10 * MINUTE)
        under_way = engine.begin_attempts([], CallCapacity([], breakers).reserve).calls
    engine.process_alert(alert(10**6, severity="critical"))

    # Those under way end after 15 seconds.
    for called in under_way:
        engine.record_answer(called, AWAY)
    later(engine, 15 * SECOND)
    [first] = engine.begin_attempts([], CallCapacity([], breakers).reserve).calls

    assert first.message_id == f"alrt_{alert(10**6).alert_id[:40]}_provisional"


def test_a_name_that_hangs_keeps_one_thread_however_many_messages_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_go, real, asked = Event(), socket.getaddrinfo, count()
    # Those of other tests end when they are collected.
    before = {one.ident for one in all_threads()}

    def look_up(host: Any, *rest: Any, **more: Any) -> Any:
        if "hanging" in str(host):
            next(asked)
            let_go.wait(30)
        return real(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    networks = parse_networks("127.0.0.0/8")
    calls = webhook_calls(OutboundCaller(networks, lambda _names: [b"k" * 32], seconds=1.0))
    try:
        for number in range(300):
            one = message(message_id=f"alrt_{number}_confirmed", url="https://hanging.test/")
            calls.begin(PlacedCall(0, one, ("a",)))
        wait_for(lambda: len(calls._completed) == 300)
        new = [one for one in all_threads() if one.ident not in before]
        lookups = [one for one in new if one.name.startswith("lookups")]
        with receiver(status(204)) as (port, _):
            calls.take_answers()
            other = message(message_id="alrt_999_confirmed", url=f"http://127.0.0.1:{port}/")
            calls.begin(PlacedCall(0, other, ("a",)))
            [(_, answer)] = wait_for(calls.take_answers)
    finally:
        let_go.set()
        calls.close()

    assert (next(asked), len(lookups), answer.status) == (1, 1, 204)
