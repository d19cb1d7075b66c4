"""The Spark session of a batch job, with Python workers that run this very Python and find this repository."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tally.settings import Settings
from tally.sparkconf import spark_conf

REPOSITORY = Path(__file__).parents[1]


def build_session(settings: Settings, name: str) -> SparkSession:
    """A session named `name`. Raises TallyError when the JVM parts are not there."""
    spark = SparkSession.builder.appName(name).config(map={**spark_conf(settings)}).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # Set on the context, not by the environment: which `python3` the PATH names must not matter.
    spark.sparkContext.pythonExec = sys.executable
    spark.sparkContext.environment["PYTHONPATH"] = str(REPOSITORY)
    return spark
