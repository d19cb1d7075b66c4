"""Canonical topics as a stream: committed records only, from explicit offsets.

It stops when records are gone.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from runtime.checkpoint import Offsets, TopicOffsets
from runtime.connect import kafka_consumer
from runtime.kafka_source import committed_stream
from tally.errors import BadSettings, DataLoss, StackError
from tally.frames import canonical_records
from tally.settings import Settings

TIMEOUT_SECONDS, HASTE_SECONDS = 30.0, 5.0
# A fetch left open at the end of one micro-batch holds up the next one for as long; Kafka's default
# is half a second.
FETCH_WAIT_MILLIS = 20


@dataclass(frozen=True)
class Retained:
    """What a topic holds now, by partition.

    First offset kept, and the first one not yet committed.
    """

    earliest: Offsets
    end: Offsets


def retained(settings: Settings, topic: str) -> Retained:
    """What the topic holds.

    Raises BadSettings if its partition count is not the settings' one, StackError if it is not
    there.
    """
    consumer = kafka_consumer(settings, "speed-offsets")
    try:
        ranges = _ranges(consumer, topic, TIMEOUT_SECONDS)
    finally:
        consumer.close()
    if not ranges:
        raise StackError(f"topic {topic} is not there, or has no leader yet; run `tally up kafka`")
    if len(ranges) != settings.partitions:
        raise BadSettings(
            f"topic {topic} has {len(ranges)} partitions,"
            f" TALLY_PARTITIONS is {settings.partitions}: a window's events would lie in two"
            f" partitions; set TALLY_PARTITIONS={len(ranges)} or run `tally up kafka`"
        )
    return Retained(
        {number: low for number, (low, _) in ranges.items()},
        {number: high for number, (_, high) in ranges.items()},
    )


def ends(settings: Settings, topics: Iterable[str]) -> dict[str, Offsets]:
    """First offset not yet committed of each topic, by partition; asked in haste.

    Raises KafkaException.
    """
    consumer = kafka_consumer(settings, "speed-offsets")
    try:
        found = {topic: _ranges(consumer, topic, HASTE_SECONDS) for topic in topics}
    finally:
        consumer.close()
    return {
        topic: {number: end for number, (_, end) in ranges.items()}
        for topic, ranges in found.items()
    }


def _ranges(consumer: Consumer, topic: str, seconds: float) -> dict[int, tuple[int, int]]:
    partitions = [
        TopicPartition(topic, number)
        for number in consumer.list_topics(topic, seconds).topics[topic].partitions
    ]
    return {
        part.partition: consumer.get_watermark_offsets(part, timeout=seconds) for part in partitions
    }


def refuse_data_loss(needed: Offsets, topic: str, held: Retained) -> None:
    """Nothing if the topic still holds all that is needed.

    Raises DataLoss (retention, or a topic made anew).
    """
    for partition, offset in sorted(needed.items()):
        earliest, end = held.earliest[partition], held.end[partition]
        if not earliest <= offset <= end:
            raise DataLoss(
                f"topic {topic} partition {partition}: the query goes on at offset {offset}, the"
                f" broker holds {earliest} to {end}; move the checkpoint folder away: the query"
                " then begins anew with a floor, batch serves what lies below"
            )


def canonical_stream(
    spark: SparkSession, settings: Settings, starting: TopicOffsets, most_records: int
) -> DataFrame:
    """Canonical records (tally.frames.canonical_records) of the topics.

    From these offsets on if there is no checkpoint. `most_records` bounds a micro-batch; what waits
    is shared out by how much of it each partition has.
    """
    return canonical_records(
        committed_stream(
            spark,
            settings,
            starting,
            **{
                "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MILLIS),
                "maxOffsetsPerTrigger": str(most_records),
            },
        )
    )
