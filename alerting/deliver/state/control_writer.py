"""Writer of operators' decisions about deliveries to the topic that dispatchers read."""

from collections.abc import Iterable

import msgspec

from alerting.deliver.state.controls import AlertControl, control_partitions
from runtime.connect import kafka_producer
from runtime.kafka.producer import BlockingProducer
from tally.config.settings import Settings

TOPIC = "alert-controls"
_SECONDS = 30.0


def write_controls(settings: Settings, controls: Iterable[AlertControl], prefix: str = "") -> None:
    """Write each control to every partition that it concerns; returns once all are acknowledged.

    `prefix` names a separate topic for a test. Writing a control again changes nothing, so a retry
    completes an interrupted write. Raises SendFailed when an unknown part was not stored.
    """
    sender = BlockingProducer(kafka_producer(settings), _SECONDS)
    for control in controls:
        # One record per partition: a dispatcher reads only its own partitions.
        value = msgspec.json.encode(control)
        for number in control_partitions(control, settings.partitions):
            sender.send(prefix + TOPIC, value, control.key.encode(), number)
    sender.flush(f"topic {prefix}{TOPIC}", "settle it again")
