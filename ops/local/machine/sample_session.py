"""`python -m ops.local.machine.sample_session FILE`: runs a sample of what jobs do with Spark.

Its JVM writes the archive FILE.
"""

import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from runtime.spark.class_archive import creation_option
from runtime.spark.configuration import FIRST_COMPILER
from runtime.spark.session import build_session
from tally.config.settings import Settings


def main(file: Path) -> None:
    """Run one session; the JVM writes the archive as it ends."""
    with tempfile.TemporaryDirectory() as folder:
        options = f'{FIRST_COMPILER} "{creation_option(file)}"'
        update = {
            "home": Path(folder),
            "spark_master": "local[2]",
            "spark_memory": "1g",
            "spark_java_options": options,
        }
        spark = build_session(Settings.load().model_copy(update=update), "classes")
        _use(spark, Path(folder))
        gateway = spark.sparkContext._gateway
        spark.stop()
        assert gateway is not None
        gateway.shutdown()
        # The JVM of PySpark ends when its standard input closes.
        gateway.proc.stdin.close()
        gateway.proc.wait()


def _use(spark: SparkSession, folder: Path) -> None:
    table = str(folder / "table")
    rows = spark.range(1000).select(
        F.col("id"),
        (F.col("id") % 10).alias("key"),
        F.col("id").cast("string").alias("text"),
    )
    rows.write.format("delta").partitionBy("key").save(table)
    stored = spark.read.format("delta").load(table)
    sums = (
        stored.dropDuplicates(["id"])
        .groupBy("key")
        .agg(F.sum("id"), F.countDistinct("text"), F.collect_list("text"))
    )
    keys = F.broadcast(sums.select("key"))
    joined = stored.join(sums, on="key").join(keys, on="key", how="left_semi")
    joined.repartition(2).collect()
    stored.mapInArrow(
        lambda batches: batches, "id bigint, key bigint, text string"
    ).persist().count()
    # A stream from the Delta table: no broker runs while the set-up makes archives.
    stream = (
        spark.readStream.format("delta")
        .load(table)
        .groupBy("key")
        .count()
        .writeStream.format("noop")
        .outputMode("update")
    )
    query = stream.option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
