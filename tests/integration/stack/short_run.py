"""A run of the tests that begins every service; tests/support/stack/interrupting.py has its use."""

import os
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_that_goes_on(kafka: str, cassandra: str, spark: "SparkSession") -> None:
    print(f"{Path(__file__).name} of {os.getpid()} goes on")
    spark.sparkContext.parallelize([1, 2]).map(str).count()
    Event().wait(120)
