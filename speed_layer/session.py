"""The Spark session of the speed layer."""

from pyspark.sql import SparkSession

from runtime.spark import build_session
from tally.settings import Settings

# What a running session can be given too.
STREAMING = {
    "spark.sql.streaming.stopTimeout": "15s",
    # A window is late by the watermark of the micro-batch before, whether or not an empty one ran between; empty ones cost
    # as much time as small ones. State of closed windows leaves with the next records.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Rows travel to Python in pieces of this size, however large one of them is.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
}
# Each query has a pool of its own: a small micro-batch does not wait behind the tasks of a large one.
_POOLS = {"spark.scheduler.mode": "FAIR"}


def build_streaming_session(settings: Settings) -> SparkSession:
    """A session for streaming. Raises TallyError when the JVM parts are not there."""
    return build_session(settings, "tally-speed", {**STREAMING, **_POOLS})
