"""Writer of alert resolutions to the topic that evaluators read."""

import msgspec

from alerting.alert.resolution import AlertResolution
from runtime.connect import kafka_producer
from runtime.kafka.producer import BlockingProducer
from tally.config.settings import Settings
from tally.errors import TallyError

TOPIC = "alert-resolutions"
_SECONDS = 30.0


def write_resolution(settings: Settings, resolution: AlertResolution, prefix: str = "") -> None:
    """Write the resolution to the partition of its store; returns once it is acknowledged.

    `prefix` names a separate topic for a test. Raises TallyError for a field that does not fit,
    SendFailed when it may not have been stored.
    """
    try:
        # A record that evaluators cannot read must not reach the topic.
        AlertResolution.decode(resolution.value)
    except msgspec.ValidationError as error:
        raise TallyError(f"resolution: {error}; correct that field") from error
    sender = BlockingProducer(kafka_producer(settings), _SECONDS)
    partition = resolution.partition(settings.partitions)
    sender.send(prefix + TOPIC, resolution.value, resolution.key.encode(), partition)
    sender.flush(f"topic {prefix}{TOPIC}", "resolve it again")
