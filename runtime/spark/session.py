"""The Spark session of every job.

Its workers run the same Python and find this repository; its driver starts no child processes.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from runtime.process.repository import REPOSITORY
from runtime.spark.configuration import spark_conf
from tally.config.settings import Settings

STARTUP = Path(__file__).parent / "startup"


def build_session(
    settings: Settings, name: str, more: Mapping[str, str] | None = None
) -> SparkSession:
    """Build a session named `name`, with the further settings of `more`.

    Raises TallyError when the JVM parts are missing.
    """
    configuration = {**spark_conf(settings), **(more or {})}
    spark = SparkSession.builder.appName(name).config(map={**configuration}).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    _use_own_python(spark)
    _delete_in_jvm(spark)
    return spark


def _use_own_python(spark: SparkSession) -> None:
    # Set on the context, not by the environment: the `python3` of the PATH must not matter.
    spark.sparkContext.pythonExec = sys.executable
    # Spark's archives come before these entries; STARTUP runs before anything else is imported.
    path = os.pathsep.join((str(STARTUP), str(REPOSITORY)))
    spark.sparkContext.environment["PYTHONPATH"] = path


def _delete_in_jvm(spark: SparkSession) -> None:
    # Otherwise Spark runs `rm -rf` for each folder, for a state store every few micro-batches:
    # ADR 004.
    assert spark._jvm is not None
    tools = spark._jvm.java.lang.Class.forName("org.apache.spark.network.util.JavaUtils")
    tools.getField("isUnix").setBoolean(None, False)
