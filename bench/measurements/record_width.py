"""What the fields of one more family cost the records of the others; docs/adr/021 tells it.

`python -m bench.measurements.record_width`: the speed layer parses the records of all families by
one schema. The same records, none of them the further family's, by the schema with it and without
it in turn, into a sink that keeps nothing, and through a Python worker as the operator's rows go.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from runtime.registry.sources import FAMILIES
from speed_layer.session import build_streaming_session
from tally.config.settings import Settings
from tally.events.identity import CanonicalEvent
from tally.families.family import Family
from tally.spark.frames import canonical_records, contributions
from tests.support.sources.canonical import interval, receipt, sighting

KAFKA = "topic string, value binary, partition int, offset bigint, timestamp timestamp"
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
# The mix of ten records in a shop with sensors.
MIX = ("sales", "sales", "sales", "traffic", "traffic", "wifi", "wifi", "wifi", "wifi", "wifi")
RunSeconds = dict[str, list[float]]


def make_record(number: int) -> tuple[str, bytes, int, int, datetime]:
    """A record in the columns of Kafka's source: topic, value, partition, offset, instant (UTC)."""
    at, store = NOON + timedelta(seconds=number % 80_000), str(number % 200)
    topic = MIX[number % len(MIX)]
    event: CanonicalEvent
    match topic:
        case "sales":
            event = receipt(store, number, at)
        case "traffic":
            event = interval(store, "door", at.replace(second=0))
        case _:
            event = sighting(store, "ap", at)
    return topic, msgspec.json.encode(event), number % 4, number, at


def cache_records(spark: SparkSession, count: int, folder: Path) -> DataFrame:
    """This many records, written and cached once for all runs.

    In:  a folder in which they are written.
    Out: canonical_records(), cached.
    """
    spark.createDataFrame([make_record(number) for number in range(count)], KAFKA).repartition(
        2
    ).write.parquet(str(folder / "records"))
    found = spark.read.parquet(str(folder / "records")).cache()
    found.count()
    return canonical_records(found)


def parse_and_discard(records: DataFrame, families: Sequence[Family]) -> None:
    """Parse the records, and discard the result.

    In:  canonical_records(); the families whose fields the schema has.
    Out: nothing.
    """
    contributions(records, *families).write.format("noop").mode("overwrite").save()


def through_python(records: DataFrame, families: Sequence[Family]) -> None:
    """Parse the records, and send all columns to a Python worker, which discards them.

    In:  canonical_records(); the families whose fields the schema has.
    Out: nothing.
    """

    def none(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        yield from (batch.slice(0, 0) for batch in batches)

    rows = contributions(records, *families)
    # As in the operator the rows go to Python; the way back is not measured.
    handed_over = rows.mapInArrow(none, rows.schema)
    handed_over.write.format("noop").mode("overwrite").save()


WAYS: Mapping[str, Callable[[DataFrame, Sequence[Family]], None]] = {
    "parsed": parse_and_discard,
    "parsed and handed to Python": through_python,
}


def measure_ways(records: DataFrame, without: str, runs: int) -> dict[str, RunSeconds]:
    """Seconds of each run, by way and by whether the schema has the further family.

    In:  canonical_records().
    Out: one number per run; numbers at the same index were measured one after the other.
    """
    every = [*FAMILIES.values()]
    sides = {"with": every, "without": [family for family in every if family.name != without]}
    found: dict[str, RunSeconds] = {}
    for way in WAYS:
        found[way] = {side: [] for side in sides}
    # The first round compiles code. The sides run in turn, so that other load affects both alike.
    for number in range(runs + 1):
        for way, read in WAYS.items():
            ordered = sides if number % 2 else reversed(sides)
            for side in ordered:
                began = time.perf_counter()
                read(records, sides[side])
                if number:
                    found[way][side].append(time.perf_counter() - began)
    return found


def ratios(seconds: RunSeconds) -> list[float]:
    """The ratio of the seconds with the further family to those without, by pair of runs."""
    pairs = zip(seconds["with"], seconds["without"], strict=True)
    return [with_family / without_family for with_family, without_family in pairs]


def main() -> int:
    """Return 0 after the medians of the pairs were printed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.measurements.record_width", description=__doc__
    )
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument(
        "--runs", type=int, default=9, help="pairs of each way, one after the other"
    )
    parser.add_argument("--without", default="inventory", choices=[*FAMILIES])
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        own = Settings.load().model_copy(update={"home": Path(home), "spark_master": "local[2]"})
        spark = build_streaming_session(own)
        records = cache_records(spark, options.records, Path(home))
        found = measure_ways(records, options.without, options.runs)
        spark.stop()
    if options.json:
        print(json.dumps(found))
        return 0
    table = Table("way", "s with", "s without", "with/without", "lowest to highest")
    for way, seconds in found.items():
        pairs = ratios(seconds)
        shown = (f"{median(seconds[side]):.2f}" for side in ("with", "without"))
        table.add_row(way, *shown, f"{median(pairs):.3f}", f"{min(pairs):.3f} to {max(pairs):.3f}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
