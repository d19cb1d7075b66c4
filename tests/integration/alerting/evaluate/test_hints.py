"""Records of which nothing is lost when they are gone: who reads them goes on without."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from runtime.connect import kafka_admin, kafka_consumer
from runtime.kafka.log_identity import PositionMetadata, RecordFingerprint, read_topic_ids
from runtime.processor.positions import KafkaGroupPositions
from tally.config.settings import Settings
from tally.errors import DataLoss
from tests.integration.ingest.conftest import send_values
from tests.integration.ingest.processor.test_positions import commit, delete_below

VALUES = [f"v{number:03d}" for number in range(40)]


def starts(
    settings: Settings, consumer: Consumer, topic: str, *hints: str, again: str = ""
) -> list[int]:
    """Where a group reads on in the first partition."""
    positions = KafkaGroupPositions(settings, consumer, hints=hints, again=[again])
    return [at.offset for at in positions.start_positions([TopicPartition(topic, 0)])]


def test_hints_that_were_deleted_before_they_were_read_are_passed_and_other_records_are_not(
    settings: Settings, topic: str
) -> None:
    send_values(settings, topic, VALUES)
    delete_below(kafka_admin(settings), topic, [5])

    with kafka_consumer(settings, topic) as consumer:
        assert starts(settings, consumer, topic, topic) == [5]
        with pytest.raises(DataLoss, match="0 to 4 were deleted"):
            starts(settings, consumer, topic)


@pytest.mark.parametrize(("same", "expected"), [(True, 3), (False, 0)])
def test_hint_that_compaction_has_taken_is_no_cut_and_of_a_topic_made_anew_all_are_read(
    settings: Settings, topic: str, same: bool, expected: int
) -> None:
    send_values(settings, topic, VALUES)
    admin = kafka_admin(settings)
    own = read_topic_ids(settings, [topic])[topic] if same else "another"
    kept = PositionMetadata(own, RecordFingerprint(2, 1, "of a record that is gone"))
    commit(admin, topic, [TopicPartition(topic, 0, 3, metadata=kept.text)])

    with kafka_consumer(settings, topic) as consumer:
        assert starts(settings, consumer, topic, topic) == [expected]
        with pytest.raises(DataLoss):
            starts(settings, consumer, topic)


def test_what_may_come_again_is_read_from_its_beginning_where_something_is_gone(
    settings: Settings, topic: str
) -> None:
    send_values(settings, topic, VALUES)
    admin = kafka_admin(settings)
    own = read_topic_ids(settings, [topic])[topic]
    # A record that lies within the log, and is not the one that was read: the log was cut.
    kept = PositionMetadata(own, RecordFingerprint(6, 1, "another"))
    commit(admin, topic, [TopicPartition(topic, 0, 7, metadata=kept.text)])

    with kafka_consumer(settings, topic) as consumer:
        assert starts(settings, consumer, topic, again=topic) == [0]
        delete_below(admin, topic, [5])
        assert starts(settings, consumer, topic, again=topic) == [5]
        with pytest.raises(DataLoss):
            starts(settings, consumer, topic)
