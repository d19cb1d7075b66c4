"""Which shape of streaming state is fastest: `python -m bench.measurements.state_shape` measures
it.

docs/adr/001-state-shape.md decides by it. Every shape reads the same pre-filled Kafka topic in the
same micro-batches, into a sink that only keeps the rows; the runs are interleaved, and a run whose
last rows differ from the expected totals ends the benchmark without a number.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from bench.lib.harness import own_stack
from bench.lib.state_shapes import SHAPES, StateShape
from runtime.registry.sources import SALES
from speed_layer.session import build_streaming_session, read_retained_offsets
from tally.config.settings import Settings
from tally.spark.frames import canonical_records
from tests.support.sources.canonical import receipt, send

TOPIC = SALES.topic
STORES, HOURS = 100, 24
DUPLICATES = 0.02
RESENT_WITHIN = 1_000
BATCHES = 6
WARM_FROM = 1  # the first micro-batch of a run opens its state and consumers
START = datetime(2017, 9, 19, tzinfo=UTC)
MINUTES = 15

StateKey = tuple[str, datetime]
StateTotals = Mapping[StateKey, tuple[int, int]]


@dataclass(frozen=True)
class ShapeRun:
    """One measured run: records per second, the JVM's processor time per million, its state.

    Records per second are of the warm micro-batches. Other load on the machine changes them, but
    hardly the processor time.
    """

    per_second: float
    cpu_seconds_per_million: float
    state_rows: int
    state_bytes: int


def fill_topic(settings: Settings, records: int) -> StateTotals:
    """Fill the topic in order of event time, with some copies of recent receipts.

    Returns (receipts, cents) by store and window start (UTC).
    """
    chance = random.Random(1)
    originals = int(records / (1 + DUPLICATES))
    step = timedelta(hours=HOURS) / originals
    totals: dict[StateKey, tuple[int, int]] = {}

    def receipts() -> Iterator[Any]:
        """Yield each receipt once, and some of the latest again."""
        recent: list[Any] = []
        for number in range(originals):
            store, at, cents = (
                str(chance.randrange(STORES)),
                START + number * step,
                chance.randrange(1, 10_000),
            )
            start = at.replace(
                minute=at.minute - at.minute % MINUTES,
                second=0,
                microsecond=0,
            )
            count, sold = totals.get((store, start), (0, 0))
            totals[store, start] = (count + 1, sold + cents)
            recent = (
                [*recent[-RESENT_WITHIN:], receipt(store, number, at, cents)]
                if chance.random() < DUPLICATES * 2
                else recent
            )
            yield receipt(store, number, at, cents)
            if recent and chance.random() < DUPLICATES:
                yield chance.choice(recent)

    send(settings, TOPIC, receipts())
    return totals


def measure(
    spark: SparkSession, settings: Settings, shape: StateShape, expected: StateTotals
) -> ShapeRun:
    """Measure one run of a shape from the beginning of the topic.

    Raises SystemExit if the last rows are not the expected totals.
    """
    spark.conf.set(
        # This option decides which watermark makes a record late (ADR 003): a shape with one
        # operator is measured as it would run.
        "spark.sql.streaming.statefulOperator.allowMultiple",
        str(shape.operators > 1).lower(),
    )
    records = sum(read_retained_offsets(settings, TOPIC).end.values())
    source = {
        "kafka.bootstrap.servers": settings.kafka,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "maxOffsetsPerTrigger": str(-(-records // BATCHES)),
    }
    kept: list[pa.Table] = []

    def collect_rows(rows: DataFrame, batch: int) -> None:
        kept.append(rows.select("store_id", "window_start", "receipts", "gross_minor").toArrow())

    checkpoint = tempfile.mkdtemp(prefix="state-shape-")
    cpu_before = cpu_seconds(spark)
    stream = canonical_records(spark.readStream.format("kafka").options(**source).load())
    query = (
        shape.rows(stream)
        .writeStream.outputMode("update")
        .option("checkpointLocation", checkpoint)
        .foreachBatch(collect_rows)
    )
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    cpu = (cpu_seconds(spark) - cpu_before) / records * 1_000_000
    reports = [
        json.loads(report.json) for report in running.recentProgress if report["numInputRows"]
    ]
    shutil.rmtree(checkpoint)
    if shape.operators:
        refuse_wrong_totals(shape, kept, expected)
    return _summary(reports[WARM_FROM:], cpu)


def cpu_seconds(spark: SparkSession) -> float:
    """Processor seconds of the driver's JVM so far, for all threads."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None  # only a Spark Connect session has none
    times = psutil.Process(
        jvm.java.lang.ProcessHandle.current().pid(),
    ).cpu_times()
    return float(times.user + times.system)


def _summary(reports: list[dict[str, Any]], cpu: float) -> ShapeRun:
    rates = [
        report["numInputRows"] / report["durationMs"]["triggerExecution"] * 1000
        for report in reports
    ]
    states = reports[-1]["stateOperators"]
    rows = sum(state["numRowsUpdated"] for report in reports for state in report["stateOperators"])
    return ShapeRun(median(rates), cpu, rows, sum(state["memoryUsedBytes"] for state in states))


def refuse_wrong_totals(shape: StateShape, kept: list[pa.Table], expected: StateTotals) -> None:
    """Raises SystemExit when the last row of a window lacks the expected receipts and cents."""
    found = {
        (row["store_id"], row["window_start"].replace(tzinfo=UTC)): (
            row["receipts"],
            row["gross_minor"],
        )
        for table in kept
        for row in table.to_pylist()
    }
    if found != expected:
        wrong = sum(found.get(key) != value for key, value in expected.items())
        raise SystemExit(f"{shape.name}: {wrong} of {len(expected)} windows are wrong; no number")


def main() -> int:
    """Return 0 when every shape gave the expected totals in every run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.measurements.state_shape", description=__doc__
    )
    parser.add_argument(
        "--records", type=int, default=600_000, help="records in the topic, copies included"
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=3,
        help="measured runs of each shape, after one that is not measured",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout in place of the table"
    )
    options = parser.parse_args()
    with own_stack("kafka") as bench:
        settings = bench.settings
        expected = fill_topic(settings, options.records)
        spark = build_streaming_session(settings.model_copy(update={"spark_master": "local[2]"}))
        runs: dict[str, list[ShapeRun]] = {shape.name: [] for shape in SHAPES}
        for number in range(options.runs + 1):
            for shape in SHAPES:
                run = measure(spark, settings, shape, expected)
                print(
                    f"run {number} {shape.name}: {run.per_second:,.0f} records/s", file=sys.stderr
                )
                # The first run of each shape compiles code for the following runs.
                if number:
                    runs[shape.name].append(run)
        spark.stop()
    show(runs, len(expected), options.json)
    return 0


def show(
    runs: Mapping[str, list[ShapeRun]],
    windows: int,
    as_json: bool,
) -> None:
    """Print the medians, as a table or as JSON."""
    found = {
        name: {
            "records_per_second": round(median(run.per_second for run in measured)),
            "cpu_seconds_per_million": round(
                median(run.cpu_seconds_per_million for run in measured), 1
            ),
            "lowest": round(min(run.per_second for run in measured)),
            "highest": round(max(run.per_second for run in measured)),
            "state_rows_written": measured[0].state_rows,
            "state_bytes": measured[0].state_bytes,
        }
        for name, measured in runs.items()
    }
    if as_json:
        print(json.dumps({"windows": windows, "shapes": found}))
        return
    columns = (
        "shape",
        "records/s (median)",
        "lowest to highest",
        "CPU s per million",
        "state rows written",
    )
    table = Table(*columns, title=f"{windows:,} windows, first by offset")
    for name, row in found.items():
        span = f"{row['lowest']:,} to {row['highest']:,}"
        cells = (
            f"{row['records_per_second']:,}",
            span,
            f"{row['cpu_seconds_per_million']:.1f}",
            f"{row['state_rows_written']:,}",
        )
        table.add_row(name, *cells)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
