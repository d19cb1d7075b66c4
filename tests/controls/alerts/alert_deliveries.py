"""Wrong on purpose: dispatchers of which each lacks one rule of deliveries, for laws alone.

intent=after       what is decided is stored when the call is answered
silence=all        a silence swallows also what follows a raise that has gone out
doubt=unsent       a call without an answer counts as one that has not arrived
order=any          a message waits for no other one
order=alert        an end waits for nothing of its raise
ends=alone         an end goes out whatever became of its raise
webhook=attempt    each attempt has a key of its own
"""

from collections.abc import Sequence

from msgspec import structs
from typing_extensions import override

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.records import (
    DeliveryDecision,
    DeliveryReason,
    DeliveryVerdict,
    StoredDelivery,
    WebhookMessage,
)
from alerting.deliver.state.routing import DeliveryRules, FirstState
from runtime.outbound.caller import OutboundAnswer
from tally.alerts.message import Alert
from tests.laws.alerting.worlds.alert_topic import OneRule
from tests.laws.deliveries.delivery_world import DispatcherRules


class SilencingAll(DeliveryRules):
    """What is silenced is not told, whoever has heard of it."""

    @override
    def decide_later(
        self, told: Sequence[DeliveryDecision], held: DeliveryReason
    ) -> DeliveryVerdict:
        return "suppressed" if held else super().decide_later(told, held)


class AnyOrder(DeliveryRules):
    """Each message has a lane of its own."""

    @override
    def lane(self, alert: Alert) -> str:
        return f"{alert.alert_id} {alert.state}"


class OrderOfAlerts(DeliveryRules):
    """A raise and its end are two alerts, each with a lane."""

    @override
    def lane(self, alert: Alert) -> str:
        return alert.alert_id


class EndsAlone(DeliveryRules):
    """An end is decided about as any other alert."""

    @override
    def decide_end(self, asked: FirstState) -> tuple[DeliveryVerdict, DeliveryReason]:
        return ("held", asked.hold_reason) if asked.hold_reason else ("send", "")

    @override
    def needs(self, alert: Alert) -> tuple[str, ...]:
        return ()


class WithoutDoubt(DeliveryEngine):
    """Where no answer comes nothing has arrived."""

    @override
    def record_answer(self, called: WebhookMessage, answer: OutboundAnswer) -> list[StoredDelivery]:
        if answer.status is not None:
            return super().record_answer(called, answer)
        unsent: list[StoredDelivery] = [
            structs.replace(one, verdict="held", message="")
            for alert_id in called.lanes
            for one in self.memory.decisions_for(called.channel, alert_id)
            if one.message == called.message_id
        ]
        return self.memory.remember_all([structs.replace(called, outcome="dead"), *unsent])


def _with(rules: DeliveryRules) -> DispatcherRules:
    return DispatcherRules(engine=lambda: DeliveryEngine(rules, OneRule()))


WRONG_DISPATCHERS = {
    "intent=after": DispatcherRules(stores_before_call=False),
    "silence=all": _with(SilencingAll()),
    "doubt=unsent": DispatcherRules(engine=lambda: WithoutDoubt(DeliveryRules(), OneRule())),
    "order=any": _with(AnyOrder()),
    "order=alert": _with(OrderOfAlerts()),
    "ends=alone": _with(EndsAlone()),
    "webhook=attempt": DispatcherRules(
        key=lambda message: f"{message.message_id} {message.attempts}"
    ),
}
