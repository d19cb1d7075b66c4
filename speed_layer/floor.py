"""The floor of a query without a checkpoint: the first window of which it sees every record.

It follows from the records below the query's starting offsets, which only the master dataset still
holds. The statistics of the master's files decide it but for the files across those offsets, of
which the records are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from runtime.kafka.offsets import Offsets
from speed_layer.session import Driver
from tally.errors import TallyError
from tally.families.family import Family
from tally.time.windows import EPOCH, WINDOW, window_start

# A file's statistics by their name in the table's log.
FileStatistics = Mapping[str, Any]
_STATISTICS = ("min.partition", "max.partition", "min.offset", "max.offset", "max.happened_at")


def compute_floor(driver: Driver, family: Family, starting: Offsets) -> datetime | None:
    """The floor of a family's view from these offsets. Raises TallyError if the master is short."""
    # From the very first record on every window is seen whole.
    if not any(starting.values()):
        return None
    # The position that the ingest notes, and not the table's end: transaction markers, which are no
    # rows, may follow the last record.
    rows = driver.session.execute(
        "SELECT partition, until FROM master_position WHERE family = %s", [family.name]
    )
    refuse_unknown_past(family.name, starting, {row.partition: row.until for row in rows})
    table = DeltaTable(str(driver.settings.master_path))
    latest, across = survey_files(read_statistics(table, family.name), starting)
    if across:
        latest = _later(latest, latest_below(_read_files(driver.spark, table, across), starting))
    # Every record of a window from there on lies at or after the starting offsets.
    return None if latest is None else window_start(latest) + WINDOW


def read_statistics(table: DeltaTable, source: str) -> list[FileStatistics]:
    """The statistics of the source's live files; None for what is not known of a file."""
    files = pa.table(table.get_add_actions(flatten=True))
    known = {"path", "partition.source", *_STATISTICS}.intersection(files.schema.names)
    rows = files.select(sorted(known)).to_pylist()
    return [row for row in rows if row["partition.source"] == source]


def survey_files(
    files: Iterable[FileStatistics], starting: Offsets
) -> tuple[datetime | None, list[str]]:
    """What the files of one source say of their records below the starting offsets.

    Returns the latest instant of the files that lie below them wholly, None for none; and the paths
    of the files across them that may have a later record below: these have to be read.
    """
    latest: datetime | None = None
    across = list[FileStatistics]()
    for file in files:
        place = _place(file, starting)
        if place == "across":
            across.append(file)
        elif place == "below":
            latest = _later(latest, file["max.happened_at"])
    return latest, [file["path"] for file in across if _may_be_later(file, latest)]


def _place(file: FileStatistics, starting: Offsets) -> Literal["below", "above", "across"]:
    if any(file.get(name) is None for name in _STATISTICS):
        return "across"
    numbers = range(file["min.partition"], file["max.partition"] + 1)
    starts = [starting.get(number, 0) for number in numbers]
    if file["min.offset"] >= max(starts):
        return "above"
    return "below" if file["max.offset"] < min(starts) else "across"


def _may_be_later(file: FileStatistics, latest: datetime | None) -> bool:
    own = file.get("max.happened_at")
    return latest is None or own is None or own > latest


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((instant for instant in (one, other) if instant is not None), default=None)


def _read_files(spark: SparkSession, table: DeltaTable, paths: Sequence[str]) -> DataFrame:
    root = table.table_uri.removeprefix("file://").rstrip("/")
    return spark.read.option("basePath", root).parquet(*(f"{root}/{path}" for path in paths))


def latest_below(records: DataFrame, starting: Offsets) -> datetime | None:
    """The latest instant of the records below the starting offsets.

    In:  master records of one source: partition, offset, happened_at timestamp; starting: first
         offset by partition.
    Out: the instant (UTC); None for no record.
    """
    below = F.lit(False)
    for partition, offset in starting.items():
        is_here = F.col("partition") == partition
        below = below | (is_here & (F.col("offset") < offset))
    latest = F.max(F.unix_micros("happened_at")).alias("latest")
    (found,) = records.where(below).agg(latest).collect()
    return None if found.latest is None else EPOCH + timedelta(microseconds=found.latest)


def refuse_unknown_past(family: str, starting: Offsets, reached: Mapping[int, int]) -> None:
    """Raise TallyError unless the master has reached the starting offsets, by partition."""
    # A master that lacks the latest of them would give too low a floor, and the query would serve
    # the tail of a window as the whole, as a query without a floor does (seen).
    for partition, offset in sorted(starting.items()):
        if offset > reached.get(partition, 0):
            raise TallyError(
                f"{family} partition {partition}: a query begun at offset {offset} has to know the"
                " records below it, the master dataset holds them up to"
                f" {reached.get(partition, 0)}; let `tally up master` catch up,"
                " or start at lower offsets"
            )
