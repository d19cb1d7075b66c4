"""Context of a speed-layer driver: its sessions, how its queries begin, and what they read.

They read committed records of canonical topics from explicit offsets, and fail when some are gone.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from cassandra.cluster import Session
from pyspark.sql import DataFrame, SparkSession

from runtime.connect import kafka_consumer
from runtime.kafka.offsets import Offsets, TopicOffsets
from runtime.kafka.topics import read_ends, read_topic_bounds
from runtime.spark.kafka_source import read_committed_stream
from runtime.spark.session import build_session
from tally.config.settings import Settings
from tally.errors import BadSettings, DataLoss
from tally.families.family import Family
from tally.spark.frames import canonical_records

# The short time-out is for the heartbeat's loop: a broker that is away must not silence the driver.
TIMEOUT_SECONDS, SHORT_TIMEOUT_SECONDS = 30.0, 5.0
# A fetch left open by one micro-batch delays the next by as much; the default is half a second.
FETCH_WAIT_MILLIS = 20
# A function with the arguments and result of read_canonical_stream().
ReadStream: TypeAlias = Callable[[SparkSession, Settings, TopicOffsets, int], DataFrame]


@dataclass(frozen=True)
class RetainedOffsets:
    """The first offset that a topic keeps, and the first not yet committed, by partition."""

    earliest: Offsets
    end: Offsets


def read_retained_offsets(settings: Settings, topic: str) -> RetainedOffsets:
    """Read the offsets that the topic holds. Raises BadSettings for a wrong partition count."""
    with kafka_consumer(settings, "speed-offsets") as consumer:
        found = read_topic_bounds(consumer, topic, TIMEOUT_SECONDS)
    if len(found) != settings.partitions:
        raise BadSettings(
            f"topic {topic} has {len(found)} partitions,"
            f" TALLY_PARTITIONS is {settings.partitions}: a window's events would lie in two"
            f" partitions; set TALLY_PARTITIONS={len(found)} or run `tally up kafka`"
        )
    earliest = {number: at.earliest for number, at in found.items()}
    return RetainedOffsets(earliest, {number: at.end for number, at in found.items()})


def read_ends_quickly(settings: Settings, topics: Iterable[str]) -> TopicOffsets:
    """First offset not yet committed of each topic, by partition. Raises KafkaException."""
    with kafka_consumer(settings, "speed-offsets") as consumer:
        return read_ends(consumer, topics, SHORT_TIMEOUT_SECONDS)


def refuse_data_loss(needed: Offsets, topic: str, retained: RetainedOffsets) -> None:
    """Raise DataLoss unless the topic still holds all that is needed."""
    # Otherwise retention has deleted records, or the topic was re-created.
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
    """Canonical records of the topics, from these offsets if there is no checkpoint.

    `most_records` bounds a micro-batch; it is divided among the partitions in proportion to their
    waiting records.

    In:  starting: first offset by topic and partition.
    Out: as tally.spark.frames.canonical_records().
    """
    options = {
        "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MILLIS),
        # The limit is on offsets, not on records: transaction markers count too.
        "maxOffsetsPerTrigger": str(most_records),
    }
    return canonical_records(read_committed_stream(spark, settings, starting, **options))


FindFloor: TypeAlias = "Callable[[Driver, Family, Offsets], datetime | None]"

# These settings could also be changed in a running session.
STREAMING = {
    "spark.sql.streaming.stopTimeout": "15s",
    # Lateness is decided by the records alone: a micro-batch without any has nothing to do.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # The interval of polls of Kafka while no records come.
    "spark.sql.streaming.pollingDelay": "100ms",
    # Rows are sent to Python in batches of this many bytes, however large a single row is.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
}


def build_streaming_session(settings: Settings) -> SparkSession:
    """Build a session for streaming. Raises TallyError when the JVM parts are missing."""
    return build_session(settings, "tally-speed", STREAMING)


@dataclass(frozen=True)
class StartOptions:
    """How queries without a checkpoint begin, and how any query reads."""

    # A seam: tests inject a function that finds no floor, which shows what the floor prevents.
    find_floor: FindFloor
    # From a topic and its number of partitions to the offsets to begin at; None: the earliest held.
    find_offsets: Callable[[str, int], Offsets | None] = lambda topic, partitions: None
    # Used with a checkpoint too: Spark resumes at its offsets, but each start makes the source.
    read_stream: ReadStream = read_canonical_stream


@dataclass(frozen=True)
class Driver:
    """The sessions, settings and start rules of one speed driver."""

    spark: SparkSession
    session: Session
    settings: Settings
    start_options: StartOptions
