"""Wrong on purpose: dispatchers that go by the clock and the holds of an earlier moment.

clock=before   begins with the clock that its state has, and takes alerts before ticks
gate=none      looks at quiet hours, silences and ages when an alert is decided, and never again
"""

from collections.abc import Collection

from typing_extensions import override

from alerting.deliver.engine import turns
from alerting.deliver.engine.engine import DeliveryEngine
from alerting.deliver.engine.turns import StartedAttempts
from alerting.deliver.state.call_limits import CallCapacity, CircuitBreakers
from alerting.deliver.state.memory import DeliveryMemory
from alerting.deliver.state.records import DeliveryReason, WebhookMessage
from alerting.deliver.state.routing import DeliveryContext
from alerting.deliver.step import ALERTS, CONTROLS, TICKS, Dispatcher
from runtime.processor.commit.record import Input

ALERTS_FIRST = (CONTROLS, ALERTS, TICKS)


class ClockOfBefore(Dispatcher):
    """Learns of no tick before its turn comes."""

    @override
    def _apply_early(self, record: Input) -> None:
        if record.topic == self.topics[0]:
            super()._apply_early(record)


class DecidedOnce(DeliveryEngine):
    """What was decided goes out, whatever holds when its turn comes."""

    @override
    def begin_attempts(
        self, under_way: Collection[WebhookMessage], room: CallCapacity | None = None
    ) -> StartedAttempts:
        left = room or CallCapacity((message.url for message in under_way), CircuitBreakers())
        return turns.begin_due_attempts(self.memory, self._context, under_way, left, no_obstacle)


def no_obstacle(
    _message: WebhookMessage, _memory: DeliveryMemory, _around: DeliveryContext
) -> DeliveryReason:
    """Nothing keeps a message back."""
    return ""
