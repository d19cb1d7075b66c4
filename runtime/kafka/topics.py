"""Partitions of topics, and the offsets that Kafka has of each."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

# A topic and a partition.
PartitionId = tuple[str, int]
PartitionOffsets = Mapping[PartitionId, int]
# Errors that mean that the client knows no leader, or asked a broker that is not the leader.
_NO_LEADER_ERRORS = (
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
)


class Bounds(NamedTuple):
    """The first offset of a partition that Kafka still has, and the next one to be written.

    For a consumer of committed records the end is the last stable offset.
    """

    earliest: int
    end: int


def partition_numbers(client: Any, topic: str, seconds: float) -> list[int]:
    """Numbers of the topic's partitions, ascending; `client` is a consumer or a producer.

    Raises KafkaException, which names the topic, also when there is no such topic: unless the
    answer's error is checked, a missing topic looks like one without partitions and records.
    """
    found = client.list_topics(topic, seconds).topics[topic]
    if found.error is not None:
        raise KafkaException(KafkaError(found.error.code(), f"topic {topic}: {found.error.str()}"))
    return sorted(found.partitions)


def read_partition_bounds(consumer: Any, partition_id: PartitionId, seconds: float) -> Bounds:
    """The partition's bounds as they are now. Raises KafkaException.

    A broker that has just restarted, or has just got a topic, announces a partition before it leads
    it: the client caches this metadata and then takes the partition for unknown, or is answered by
    the wrong broker. The request is retried until the seconds are over.
    """
    asking = Retrying(
        retry=retry_if_exception(_has_no_leader),
        stop=stop_after_delay(seconds),
        wait=wait_fixed(0.2),
        # This request makes the client drop its cached metadata.
        before_sleep=lambda _state: consumer.list_topics(partition_id[0], seconds),
        reraise=True,
    )
    at = TopicPartition(*partition_id)
    return Bounds(*asking(lambda: consumer.get_watermark_offsets(at, timeout=seconds)))


def _has_no_leader(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in _NO_LEADER_ERRORS


def read_topic_bounds(consumer: Any, topic: str, seconds: float) -> dict[int, Bounds]:
    """The offsets at both ends of every partition, by its number. Raises KafkaException."""
    return {
        number: read_partition_bounds(consumer, (topic, number), seconds)
        for number in partition_numbers(consumer, topic, seconds)
    }


def read_ends(
    consumer: Any,
    topics: Iterable[str],
    seconds: float,
) -> dict[str, dict[int, int]]:
    """The next offset of every partition, by topic and number. Raises KafkaException."""
    ends: dict[str, dict[int, int]] = {}
    for topic in topics:
        found = read_topic_bounds(consumer, topic, seconds)
        ends[topic] = {number: at.end for number, at in found.items()}
    return ends


def read_committed_positions(
    consumer: Any, partition_ids: Iterable[PartitionId], seconds: float
) -> list[TopicPartition]:
    """The committed position of the consumer's group in each partition.

    The offset is negative where nothing is committed. Raises KafkaException, also when the brokers
    do not know the position of a single partition: that is an error in the answer, beside a
    negative offset.
    """
    requests = [TopicPartition(*partition_id) for partition_id in partition_ids]
    found: list[TopicPartition] = consumer.committed(requests, timeout=seconds) if requests else []
    for at in found:
        if at.error is not None:
            place = f"topic {at.topic}, partition {at.partition}"
            reason = f"{place}: no committed position ({at.error.str()})"
            raise KafkaException(KafkaError(at.error.code(), reason))
    return found


def read_group_positions(
    consumer: Any, partition_ids: Iterable[PartitionId], seconds: float
) -> dict[PartitionId, int]:
    """The first offset of each partition that the consumer's group has not passed.

    0 where nothing is committed. Raises KafkaException. To a consumer of committed records the
    brokers answer once no transaction is under way that would move the positions.
    """
    found = read_committed_positions(consumer, partition_ids, seconds)
    # A partition without a position (-1001) has been read up to its beginning.
    return {(at.topic, at.partition): max(0, at.offset) for at in found}


def read_topic_positions(consumer: Any, topic: str, seconds: float) -> dict[int, int]:
    """The first offset of each partition of the topic that the group has not passed.

    0 where nothing is committed. Raises KafkaException as read_group_positions().
    """
    partition_ids = [(topic, number) for number in partition_numbers(consumer, topic, seconds)]
    found = read_group_positions(consumer, partition_ids, seconds)
    return {number: at for (_, number), at in found.items()}
