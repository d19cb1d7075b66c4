"""Wrong on purpose: the shipped dispatcher with one part in the place of another, for real brokers.

The rules are those of alert_deliveries.py beside this file; what a call and its storing are is here
a thread, a socket and a transaction.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from typing import Any

from typing_extensions import override

from alerting.deliver.__main__ import DispatcherParts
from alerting.deliver.state.records import WebhookMessage, decode_record
from alerting.deliver.step import Dispatcher
from runtime.outbound.caller import OutboundAnswer, OutboundCaller, OutboundRequest
from runtime.processor.delivery import Failpoints
from runtime.processor.step import Input, Output
from tally.config.settings import Settings
from tests.controls.alerts.alert_deliveries import (
    AnyOrder,
    EndsAlone,
    OrderOfAlerts,
    SilencingAll,
    WithoutDoubt,
)
from tests.controls.guard import refuse_outside_tests

# Beside those of a transaction: what has been done when one comes, and the next step has not.
DECIDED, ATTEMPT_STORED, ANSWERED = "decided", "attempt_stored", "answered"
OUTCOME_TAKEN, OUTCOME_STORED, RESTORING = "outcome_taken", "outcome_stored", "restoring"
OWN_FAILPOINTS = (DECIDED, ATTEMPT_STORED, ANSWERED, OUTCOME_TAKEN, OUTCOME_STORED, RESTORING)
_PATIENCE_SECONDS = 20.0


class WatchedDispatcher(Dispatcher):
    """Tells `failpoints` of each point of a delivery; else the one that is shipped."""

    def __init__(self, failpoints: Failpoints, *parts: Any) -> None:
        super().__init__(*parts)
        self._failpoints = failpoints
        self._has_outcome = False

    @override
    def process(self, record: Input) -> Sequence[Output]:
        outputs = super().process(record)
        if record.topic == self.topics[2] and outputs:
            self._failpoints.hit(DECIDED)
        return outputs

    @override
    def before_commit(self) -> Sequence[Output]:
        outputs = super().before_commit()
        self._has_outcome = any(_is_delivered(one) for one in outputs)
        if self._has_outcome:
            self._failpoints.hit(OUTCOME_TAKEN)
        return outputs

    @override
    def on_commit(self) -> None:
        if self._has_outcome:
            self._failpoints.hit(OUTCOME_STORED)
        if self._to_call:
            self._failpoints.hit(ATTEMPT_STORED)
        super().on_commit()

    @override
    def restore(self, state: Iterable[Input]) -> None:
        super().restore(self._told_of(state))

    def _told_of(self, state: Iterable[Input]) -> Iterable[Input]:
        for record in state:
            self._failpoints.hit(RESTORING)
            yield record


def _is_delivered(output: Output) -> bool:
    kept = decode_record(output.value) if output.value else None
    return isinstance(kept, WebhookMessage) and kept.outcome == "delivered"


class CallingFirst(Dispatcher):
    """intent=after: what is decided is stored once the calls have ended."""

    @override
    def before_commit(self) -> Sequence[Output]:
        outputs = [*super().before_commit()]
        Dispatcher.on_commit(self)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._are_under_way() and time.monotonic() < deadline:
            time.sleep(0.01)
        return [*outputs, *super().before_commit()]

    @override
    def on_commit(self) -> None:
        """Called already."""

    def _are_under_way(self) -> bool:
        calls = self._calls
        return len(calls.pending_calls()) > len(calls._completed)


class WatchedCallingFirst(WatchedDispatcher, CallingFirst):
    """With its failpoints."""


@dataclass(frozen=True)
class WatchedCaller(OutboundCaller):
    """Tells `failpoints` of each good answer before anybody else has it."""

    failpoints: Failpoints = field(default_factory=Failpoints)

    @override
    async def call_signed(
        self, request: OutboundRequest, message_id: str, secrets: Sequence[str]
    ) -> OutboundAnswer:
        answer = await super().call_signed(request, message_id, secrets)
        if answer.status == 204:
            self.failpoints.hit(ANSWERED)
        return answer


@dataclass(frozen=True)
class KeyOfAttempt(WatchedCaller):
    """webhook=attempt: each call has a key of its own."""

    @override
    async def call_signed(
        self, request: OutboundRequest, message_id: str, secrets: Sequence[str]
    ) -> OutboundAnswer:
        return await super().call_signed(request, f"{message_id}_{token_hex(4)}", secrets)


SHIPPED = DispatcherParts(step=WatchedDispatcher, caller=WatchedCaller)
WRONG_PARTS = {
    "intent=after": SHIPPED._replace(step=WatchedCallingFirst),
    "silence=all": SHIPPED._replace(rules=SilencingAll()),
    "doubt=unsent": SHIPPED._replace(engine=WithoutDoubt),
    "order=any": SHIPPED._replace(rules=AnyOrder()),
    "order=alert": SHIPPED._replace(rules=OrderOfAlerts()),
    "ends=alone": SHIPPED._replace(rules=EndsAlone()),
    "webhook=attempt": SHIPPED._replace(caller=KeyOfAttempt),
}


def watched_parts(settings: Settings, failpoints: Failpoints, wrong: str = "") -> DispatcherParts:
    """The parts of the shipped dispatcher, or of a wrong one, all told of `failpoints`.

    Raises NotATest for settings of no test.
    """
    refuse_outside_tests(settings)
    parts = WRONG_PARTS[wrong] if wrong else SHIPPED
    return parts._replace(
        step=partial(parts.step, failpoints),
        caller=partial(parts.caller, failpoints=failpoints),
    )
