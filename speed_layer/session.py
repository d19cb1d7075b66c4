"""The Spark session of the speed layer."""

from pyspark.sql import SparkSession

from runtime.spark import build_session
from tally.settings import Settings

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
