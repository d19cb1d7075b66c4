"""What one driver of the speed layer works with: its sessions, and how its queries begin."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from cassandra.cluster import Session
from pyspark.sql import SparkSession

from runtime.offsets import Offsets
from runtime.spark import build_session
from speed_layer.source import ReadStream, canonical_stream
from tally.families import Family
from tally.settings import Settings

# By topic and its number of partitions the offsets to begin at, None for the earliest that is held.
GivenOffsets: TypeAlias = Callable[[str, int], Offsets | None]
FindFloor: TypeAlias = "Callable[[Driver, Family, Offsets], datetime | None]"

# What a running session can be given too.
STREAMING = {
    "spark.sql.streaming.stopTimeout": "15s",
    # What is late is decided by the records alone: a micro-batch without any has nothing to do.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # How often Kafka is asked while nothing comes.
    "spark.sql.streaming.pollingDelay": "100ms",
    # Rows travel to Python in pieces of this size, however large one of them is.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
}


def build_streaming_session(settings: Settings) -> SparkSession:
    """A session for streaming. Raises TallyError when the JVM parts are not there."""
    return build_session(settings, "tally-speed", STREAMING)


@dataclass(frozen=True)
class Begin:
    """How queries without a checkpoint begin, and how any query reads."""

    # A seam: tests put in one that finds none, and see what the floor is for.
    find_floor: FindFloor
    given: GivenOffsets = lambda topic, partitions: None
    # With a checkpoint too: Spark goes on at its offsets, but the source is made at each start.
    read: ReadStream = canonical_stream


@dataclass(frozen=True)
class Driver:
    """What one speed driver works with."""

    spark: SparkSession
    session: Session
    settings: Settings
    begin: Begin
