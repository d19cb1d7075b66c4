"""What Hadoop's child processes cost a micro-batch; docs/adr/004 decides by it.

`python -m bench.measurements.checkpoint_files` measures it. One small stateful query with RocksDB,
in one JVM, its checkpoint on Hadoop's own local file system and on Tally's in turn. No Kafka, no
Cassandra, no Python worker: what is left is Spark's fixed cost.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

from speed_layer.session import build_streaming_session
from tally.config.settings import Settings
from tests.integration.speed.test_forks import STOCK, faults_of_ended_children

WARM_FROM, SECONDS = 5, 120
STEPS = ("walCommit", "commitOffsets", "addBatch", "triggerExecution")
FileNumbers = Mapping[str, float]


@contextmanager
def counting(spark: SparkSession, checkpoint: str) -> Iterator[StreamingQuery]:
    """Run a query that counts ten rows per micro-batch by window, as fast as possible."""

    def read(batch: DataFrame, number: int) -> None:
        batch.collect()

    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 10)
        .load()
        .withWatermark("timestamp", "1 hour")
    )
    counted = (
        rows.groupBy(F.window("timestamp", "15 minutes")).count().writeStream.outputMode("update")
    )
    query = counted.option("checkpointLocation", checkpoint).foreachBatch(read).start()
    try:
        yield query
    finally:
        query.stop()


def measure_run(spark: SparkSession, micro_batches: int) -> FileNumbers:
    """Median milliseconds of each step, and page faults of child processes per micro-batch.

    The first micro-batches are left out.
    """
    reports: dict[int, Mapping[str, float]] = {}
    before, deadline = faults_of_ended_children(spark), time.monotonic() + SECONDS
    with tempfile.TemporaryDirectory() as checkpoint, counting(spark, checkpoint) as query:
        while len(reports) < micro_batches + WARM_FROM and time.monotonic() < deadline:
            # Spark keeps only the latest hundred reports, so they are collected repeatedly.
            reports |= {
                report["batchId"]: json.loads(report.json)["durationMs"]
                for report in query.recentProgress
            }
            time.sleep(0.2)
        faults = faults_of_ended_children(spark) - before
    # The first micro-batches compile code and open their files.
    warm = [steps for number, steps in sorted(reports.items()) if number >= WARM_FROM]
    return {
        **{step: median(steps[step] for steps in warm) for step in STEPS},
        "child page faults": faults / len(reports),
    }


def main() -> int:
    """Return 0 after the medians of the interleaved runs were printed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.measurements.checkpoint_files", description=__doc__
    )
    parser.add_argument("--micro-batches", type=int, default=30, help="measured in each run")
    parser.add_argument("--runs", type=int, default=3, help="of each, one after the other in turn")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout in place of the table"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        own = build_streaming_session(
            Settings.load().model_copy(update={"home": Path(home), "spark_master": "local[2]"})
        )
        stock = own.newSession()
        for name, value in STOCK.items():
            stock.conf.set(name, value)
        runs: dict[str, list[FileNumbers]] = {"Hadoop's": [], "Tally's": []}
        # In turn and in one JVM, so that other load on the machine affects both alike.
        for _ in range(options.runs):
            for name, spark in (("Hadoop's", stock), ("Tally's", own)):
                runs[name].append(measure_run(spark, options.micro_batches))
        own.stop()
    show(
        {
            name: {key: median(run[key] for run in measured_runs) for key in measured_runs[0]}
            for name, measured_runs in runs.items()
        },
        options.json,
    )
    return 0


def show(found: Mapping[str, FileNumbers], as_json: bool) -> None:
    """Print the medians, as a table or as JSON."""
    if as_json:
        print(json.dumps(found))
        return
    table = Table(
        "local files", *(f"{step} ms" for step in STEPS), "child page faults", title="a micro-batch"
    )
    for name, row in found.items():
        table.add_row(name, *(f"{value:,.0f}" for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    raise SystemExit(main())
