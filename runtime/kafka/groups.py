"""Positions of consumer groups, moved by hand while nothing of the group runs."""

from collections.abc import Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from runtime.connect import kafka_admin
from runtime.kafka.log_identity import PositionMetadata, read_topic_ids
from runtime.kafka.topics import PartitionId
from tally.config.settings import Settings
from tally.errors import TallyError

_SECONDS = 30.0


def move_positions(settings: Settings, group: str, offsets: Mapping[PartitionId, int]) -> None:
    """Let the group go on at these offsets of the topics as they are now.

    Raises TallyError while the group has a member, whose own commits would win.
    """
    ids = read_topic_ids(settings, {topic for topic, _ in offsets})
    positions = [
        TopicPartition(*place, offset, metadata=PositionMetadata(ids[place[0]]).text)
        for place, offset in offsets.items()
    ]
    # Named, because the answers fail as soon as their client is collected.
    admin = kafka_admin(settings)
    request = [ConsumerGroupTopicPartitions(group, positions)]
    moved = admin.alter_consumer_group_offsets(request, request_timeout=_SECONDS)
    try:
        moved[group].result(_SECONDS)
    except KafkaException as error:
        reason = error.args[0].str()
        raise TallyError(
            f"the position of {group} was not moved ({reason});"
            f" `tally down {group}`, then try again"
        ) from error
