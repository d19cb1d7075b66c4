"""Wrong on purpose: dispatchers that go by the clock and the holds of an earlier moment.

clock=before   begins with the clock that its state has, and takes alerts before ticks
gate=none      looks at quiet hours, silences and ages when an alert is decided, and never again
"""

from collections.abc import Collection

from runtime.processor.record import Input
from serving.alerts.dispatch.step import ALERTS, CONTROLS, TICKS, Dispatcher
from tally.alerts.delivery import turns
from tally.alerts.delivery.deciding import Surroundings
from tally.alerts.delivery.desk import Desk
from tally.alerts.delivery.memory import DeliveryMemory
from tally.alerts.delivery.records import DeliveryReason, WebhookMessage
from tally.alerts.delivery.room import Breakers, CallRoom
from tally.alerts.delivery.turns import BegunAttempts

ALERTS_FIRST = (CONTROLS, ALERTS, TICKS)


class ClockOfBefore(Dispatcher):
    """Learns of no tick before its turn comes."""

    def _foresee(self, record: Input) -> None:
        if record.topic == self.topics[0]:
            super()._foresee(record)


class DecidedOnce(Desk):
    """What was decided goes out, whatever holds when its turn comes."""

    def begin(
        self, under_way: Collection[WebhookMessage], room: CallRoom | None = None
    ) -> BegunAttempts:
        left = room or CallRoom((message.url for message in under_way), Breakers())
        return turns.begun_attempts(self.memory, self._around, under_way, left, no_obstacle)


def no_obstacle(
    _message: WebhookMessage, _memory: DeliveryMemory, _around: Surroundings
) -> DeliveryReason:
    """Nothing keeps a message back."""
    return ""
