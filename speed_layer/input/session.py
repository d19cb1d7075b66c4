"""Context of a speed-layer driver: its sessions, and how its queries begin."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from cassandra.cluster import Session
from pyspark.sql import SparkSession

from runtime.kafka.offsets import Offsets
from runtime.spark.session import build_session
from speed_layer.input.source import ReadStream, read_canonical_stream
from tally.config.settings import Settings
from tally.families.family import Family

# From a topic and its number of partitions to the offsets to begin at; None: the earliest held.
FindStartingOffsets: TypeAlias = Callable[[str, int], Offsets | None]
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
    find_offsets: FindStartingOffsets = lambda topic, partitions: None
    # Used with a checkpoint too: Spark resumes at its offsets, but each start makes the source.
    read_stream: ReadStream = read_canonical_stream


@dataclass(frozen=True)
class Driver:
    """The sessions, settings and start rules of one speed driver."""

    spark: SparkSession
    session: Session
    settings: Settings
    start_options: StartOptions
