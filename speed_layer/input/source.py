"""Canonical topics as a stream: committed records only, from explicit offsets.

The stream fails when records are gone.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from runtime.connect import kafka_consumer
from runtime.kafka.offsets import Offsets, TopicOffsets
from runtime.kafka.topics import read_ends, read_topic_bounds
from runtime.spark.kafka_source import read_committed_stream
from tally.config.settings import Settings
from tally.errors import BadSettings, DataLoss
from tally.spark.frames import canonical_records

# The short time-out is for the heartbeat's loop: a broker that is away must not silence the driver.
TIMEOUT_SECONDS, SHORT_TIMEOUT_SECONDS = 30.0, 5.0
# A fetch left open at the end of one micro-batch delays the next one by as much; Kafka's default
# is half a second.
FETCH_WAIT_MILLIS = 20


# A function with the arguments and result of read_canonical_stream().
ReadStream: TypeAlias = Callable[[SparkSession, Settings, TopicOffsets, int], DataFrame]


@dataclass(frozen=True)
class RetainedOffsets:
    """The offsets that a topic holds now, by partition.

    earliest: the first offset kept; end: the first one not yet committed.
    """

    earliest: Offsets
    end: Offsets


def read_retained_offsets(settings: Settings, topic: str) -> RetainedOffsets:
    """Read the offsets that the topic holds.

    Raises BadSettings if its partition count is not that of the settings, KafkaException if the
    topic does not exist.
    """
    with kafka_consumer(settings, "speed-offsets") as consumer:
        found = read_topic_bounds(consumer, topic, TIMEOUT_SECONDS)
    if len(found) != settings.partitions:
        raise BadSettings(
            f"topic {topic} has {len(found)} partitions,"
            f" TALLY_PARTITIONS is {settings.partitions}: a window's events would lie in two"
            f" partitions; set TALLY_PARTITIONS={len(found)} or run `tally up kafka`"
        )
    return RetainedOffsets(
        {number: at.earliest for number, at in found.items()},
        {number: at.end for number, at in found.items()},
    )


def read_ends_quickly(settings: Settings, topics: Iterable[str]) -> TopicOffsets:
    """First offset not yet committed of each topic, by partition, read with a short time-out.

    Raises KafkaException.
    """
    with kafka_consumer(settings, "speed-offsets") as consumer:
        return read_ends(consumer, topics, SHORT_TIMEOUT_SECONDS)


def refuse_data_loss(needed: Offsets, topic: str, retained: RetainedOffsets) -> None:
    """Raise DataLoss unless the topic still holds all that is needed.

    Otherwise retention has deleted records, or the topic was re-created.
    """
    for partition, offset in sorted(needed.items()):
        earliest, end = retained.earliest[partition], retained.end[partition]
        # An offset beyond the end fails too: a log that ends before the position is another one.
        if not earliest <= offset <= end:
            raise DataLoss(
                f"topic {topic} partition {partition}: the query goes on at offset {offset}, the"
                f" broker holds {earliest} to {end}; move the checkpoint folder away: the query"
                " then begins again with a floor, batch serves what lies below"
            )


def read_canonical_stream(
    spark: SparkSession, settings: Settings, starting: TopicOffsets, most_records: int
) -> DataFrame:
    """Canonical records (tally.spark.frames.canonical_records) of the topics.

    They begin at these offsets if there is no checkpoint. `most_records` bounds a micro-batch; it
    is divided among the partitions in proportion to their waiting records.

    In:  starting: first offset by topic and partition.
    Out: as tally.spark.frames.canonical_records().
    """
    return canonical_records(
        read_committed_stream(
            spark,
            settings,
            starting,
            **{
                "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MILLIS),
                # The limit is on offsets, not on records: transaction markers count too.
                "maxOffsetsPerTrigger": str(most_records),
            },
        )
    )
