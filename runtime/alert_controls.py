"""Writes what people settle about deliveries into the topic that dispatchers read."""

from collections.abc import Iterable

import msgspec

from runtime.connect import kafka_producer
from runtime.producer import AwaitedProducer
from tally.alerts.delivery.controls import AlertControl, control_partitions
from tally.settings import Settings

TOPIC = "alert-controls"
_SECONDS = 30.0


def write_controls(settings: Settings, controls: Iterable[AlertControl], prefix: str = "") -> None:
    """Each control in every partition that it is for, all acknowledged.

    `prefix` names a topic of a test's own. Written again a control changes nothing, so it heals
    what broke off. Raises NotSent when an unknown part was not stored.
    """
    sender = AwaitedProducer(kafka_producer(settings), _SECONDS)
    for control in controls:
        # One record for each partition: a dispatcher reads those of its own, and no others.
        value = msgspec.json.encode(control)
        for number in control_partitions(control, settings.partitions):
            sender.send(prefix + TOPIC, value, control.key.encode(), number)
    sender.settle(f"topic {prefix}{TOPIC}", "settle it again")
