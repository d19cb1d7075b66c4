"""`python -m speed_layer.receipts_refill`: the raw receipts of the whole master dataset, once more.

For a Cassandra that has lost them. A receipt that is there already is not changed.
"""

import sys

from deltalake import DeltaTable

from runtime.process.job import run_job
from runtime.registry.sources import SALES
from runtime.spark.session import build_session
from speed_layer.receipts import parse_receipts, write_receipts
from tally.config.settings import Settings

_COLUMNS = ("value", "topic", "partition", "offset")


def main() -> int:
    """Run the job and return its exit code (runtime/process/job.py)."""
    return run_job("receipts", lambda: refill(Settings.load()))


def refill(settings: Settings) -> None:
    """Write every receipt of the master dataset."""
    table = DeltaTable(str(settings.master_path))
    files = table.file_uris(file_pruning_predicate=[("source", "=", SALES.topic)])
    if not files:
        return
    spark = build_session(settings, "tally-receipts-refill")
    read = spark.read.option("basePath", str(settings.master_path)).parquet(*files)
    records = read.withColumnRenamed("source", "topic").select(*_COLUMNS)
    write_receipts(parse_receipts(records), settings).write.format("noop").mode("overwrite").save()
    spark.stop()


if __name__ == "__main__":
    sys.exit(main())
