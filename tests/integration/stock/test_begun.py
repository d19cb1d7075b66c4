"""Who begins long after the first records came begins with what is left, and loses nothing then."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from runtime.connect import kafka_admin, kafka_consumer
from runtime.processor.positions import KafkaGroupPositions
from tally.config.settings import Settings
from tally.errors import DataLoss
from tests.integration.ingest.conftest import send_values
from tests.integration.ingest.processor.test_positions import delete_below

VALUES = [f"v{number:03d}" for number in range(40)]


def starts(settings: Settings, consumer: Consumer, topic: str, anchor: str) -> list[int]:
    """Where a group begins, or goes on, in the first partition."""
    positions = KafkaGroupPositions(settings, consumer, anchor)
    positions.earliest_topics = [topic]
    return [at.offset for at in positions.start_positions([TopicPartition(topic, 0)])]


def test_what_was_gone_before_the_first_start_is_no_loss_and_what_goes_after_it_is(
    settings: Settings, topic: str, second_topic: str
) -> None:
    send_values(settings, topic, VALUES)
    admin = kafka_admin(settings)
    delete_below(admin, topic, [3])

    with kafka_consumer(settings, topic) as consumer:
        assert starts(settings, consumer, topic, second_topic) == [3]
        # Nothing was read meanwhile; and yet it is known where it has begun.
        assert starts(settings, consumer, topic, second_topic) == [3]
        delete_below(admin, topic, [5])
        with pytest.raises(DataLoss, match="3 to 4 were deleted"):
            starts(settings, consumer, topic, second_topic)
