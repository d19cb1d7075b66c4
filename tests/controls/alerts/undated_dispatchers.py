"""Wrong on purpose: dispatchers that go by the clock and the holds of an earlier moment.

clock=before   begins with the clock that its state has, and takes alerts before ticks
gate=none      looks at quiet hours, silences and ages when an alert is decided, and never again
"""

from typing_extensions import override

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.records import DeliveryReason, WebhookMessage
from alerting.deliver.step import ALERTS, CONTROLS, TICKS, Dispatcher
from runtime.processor.step import Input

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
    def _obstacle(self, message: WebhookMessage) -> DeliveryReason:
        return ""
