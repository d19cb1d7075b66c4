"""The Spark session of every job.

Its workers run this very Python and find this repository, its driver makes no child processes.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from runtime.repository import REPOSITORY
from runtime.sparkconf import spark_conf
from tally.settings import Settings

STARTUP = Path(__file__).parent / "startup"


def build_session(
    settings: Settings, name: str, more: Mapping[str, str] | None = None
) -> SparkSession:
    """A session named `name`, with more settings of its own.

    Raises TallyError when the JVM parts are not there.
    """
    configuration = {**spark_conf(settings), **(more or {})}
    spark = SparkSession.builder.appName(name).config(map={**configuration}).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    _with_own_python(spark)
    _deleting_in_jvm(spark)
    return spark


def _with_own_python(spark: SparkSession) -> None:
    # Set on the context, not by the environment: which `python3` the PATH names must not matter.
    spark.sparkContext.pythonExec = sys.executable
    # Spark's archives come before these; the first has a say before anything is imported.
    path = os.pathsep.join((str(STARTUP), str(REPOSITORY)))
    spark.sparkContext.environment["PYTHONPATH"] = path


def _deleting_in_jvm(spark: SparkSession) -> None:
    # Else Spark runs `rm -rf` for each folder, as a state store does every few micro-batches:
    # ADR 004.
    assert spark._jvm is not None
    tools = spark._jvm.java.lang.Class.forName("org.apache.spark.network.util.JavaUtils")
    tools.getField("isUnix").setBoolean(None, False)
