"""The Spark session of the speed layer, with Python workers that run this very Python and find this repository."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tally.settings import Settings
from tally.sparkconf import spark_conf

REPOSITORY = Path(__file__).parents[1]
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


def build_session(settings: Settings) -> SparkSession:
    """A session for streaming. Raises TallyError when the JVM parts are not there."""
    configuration = {**spark_conf(settings), **STREAMING, **_POOLS}
    spark = SparkSession.builder.appName("tally-speed").config(map={**configuration}).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return with_own_python(spark)


def with_own_python(spark: SparkSession) -> SparkSession:
    """The session; its Python workers use the driver's interpreter and import this repository's packages."""
    # Set on the context, not by the environment: which `python3` the PATH names must not matter.
    context = spark.sparkContext
    context.pythonExec = sys.executable
    context.environment["PYTHONPATH"] = str(REPOSITORY)
    return spark
