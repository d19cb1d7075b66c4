"""The Parquet files of one append, which Spark's tasks write into the folder of the table.

A file belongs to the table once a commit names it: what a failed task or a killed ingest leaves
behind is read by nobody, and maintenance removes it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from runtime.spark.arrow import to_rows
from schemas.loader import master_schema
from tally.time.instants import to_millis
from tally.time.windows import EPOCH

_TYPES = {
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "int": pa.int32(),
    "bigint": pa.int64(),
}
MASTER_COLUMNS = pa.schema(
    [(column["name"], _TYPES[column["type"]]) for column in master_schema()["columns"]]
)
PARTITIONED_BY: list[str] = master_schema()["partitioned_by"]
_ORDER = (*PARTITIONED_BY, "partition", "offset")
# Of one row group of a file; a task keeps so much in memory.
_GROUP_BYTES = 32 << 20
_FILE_COLUMNS = pa.schema(
    [column for column in MASTER_COLUMNS if column.name not in PARTITIONED_BY]
)


class FilePart(NamedTuple):
    """The records of one file that come from one partition; instants in microseconds since 1970.

    last_micros, last_sha256: Kafka timestamp and digest of the record at last_offset. earliest,
    latest: of happened_at; None where no record can be read.
    """

    path: str
    size: int
    source: str
    event_date: date
    partition: int
    rows: int
    first_offset: int
    last_offset: int
    last_micros: int
    last_sha256: str
    earliest: int | None
    latest: int | None


_PART_COLUMNS = (
    "path string, size bigint, source string, event_date date, partition int, rows bigint,"
    " first_offset bigint, last_offset bigint, last_micros bigint, last_sha256 string,"
    " earliest bigint, latest bigint"
)


def write_files(records: DataFrame, table: Path) -> list[FilePart]:
    """Write one file for each source and day, by one Spark action; what they hold is returned.

    In:  batch_layer.master.table.master_records().
    Out: no DataFrame.
    """
    columns, root = StructType.fromDDL(_PART_COLUMNS), str(table)
    assert isinstance(columns, StructType)
    arrow = to_arrow_schema(columns)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for parts in write_days(root, batches):
            yield pa.RecordBatch.from_pylist([part._asdict() for part in parts], schema=arrow)

    # The rows of a day go to one task, which writes one file per day.
    by_day = records.repartition(*PARTITIONED_BY).sortWithinPartitions(*_ORDER)
    return [FilePart(*row) for row in by_day.mapInArrow(write, columns).collect()]


def write_days(root: str, batches: Iterable[pa.RecordBatch]) -> Iterator[list[FilePart]]:
    """Write the files of one task; yield each file's parts.

    In:  master_records(), ordered by source, day, partition and offset.
    """
    slices = (part for batch in batches for part in _split_by_day(batch))
    for (source, day), grouped in groupby(slices, key=lambda part: part[0]):
        yield write_file(root, source, day, (rows for _, rows in grouped))


def _split_by_day(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, date], pa.RecordBatch]]:
    """The source and day of each run of rows, and the rows; the batch is ordered by both."""
    counted = (
        pa.table(batch).group_by(PARTITIONED_BY, use_threads=False).aggregate([([], "count_all")])
    )
    begin = 0
    for entry in counted.to_pylist():
        yield (entry["source"], entry["event_date"]), batch.slice(begin, entry["count_all"])
        begin += entry["count_all"]


# The rows are ordered by partition and offset, so the last row of each has its highest offset.
_SUMMARY = {
    "rows": ("offset", "count"),
    "first_offset": ("offset", "min"),
    "last_offset": ("offset", "max"),
    "last_micros": ("committed_at", "last"),
    "last_sha256": ("sha256", "last"),
    "earliest": ("happened_at", "min"),
    "latest": ("happened_at", "max"),
}
_NUMBERS = pa.schema(
    [
        ("partition", pa.int32()),
        *((name, pa.string() if name == "last_sha256" else pa.int64()) for name in _SUMMARY),
    ]
)


def write_file(
    root: str, source: str, day: date, slices: Iterable[pa.RecordBatch]
) -> list[FilePart]:
    """Write one file of the source's records of a day, and summarise it by partition.

    In:  master_records() of that day, ordered by partition and offset.
    """
    path = f"source={source}/event_date={day.isoformat()}/{uuid4().hex}.zstd.parquet"
    file = Path(root, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    summaries = []
    with pq.ParquetWriter(file, _FILE_COLUMNS, compression="zstd") as writer:
        for rows in _coalesce(slices):
            writer.write_table(rows.select(_FILE_COLUMNS.names).cast(_FILE_COLUMNS))
            summaries.append(_summarise(rows, _SUMMARY))
    again = {name: (name, "sum" if how == "count" else how) for name, (_, how) in _SUMMARY.items()}
    found = _summarise(pa.concat_tables(summaries), again)
    size = file.stat().st_size
    return [FilePart(path, size, source, day, *row) for row in to_rows(found.cast(_NUMBERS))]


def _coalesce(slices: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in tables that are large enough for a row group of their own."""
    waiting: list[pa.RecordBatch] = []
    for rows in slices:
        waiting.append(rows)
        if sum(part.nbytes for part in waiting) >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _summarise(rows: pa.Table, columns: Mapping[str, tuple[str, str]]) -> pa.Table:
    # In one thread: "last" needs the order of the rows.
    found = rows.group_by("partition", use_threads=False).aggregate([*columns.values()])
    return found.rename_columns(["partition", *columns])


def _upcast(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows in today's columns, with null where their file is older than a column."""
    columns = [
        rows[column.name].cast(column.type)
        if column.name in rows.schema.names
        else pa.nulls(rows.num_rows, column.type)
        for column in _FILE_COLUMNS
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_FILE_COLUMNS)


def merge_files(root: str, source: str, day: date, paths: Iterable[str]) -> list[FilePart]:
    """Write one file of the rows of several of a source and day; summarised without digests."""

    def read() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with pq.ParquetFile(Path(root, path)) as file:
                for rows in file.iter_batches():
                    yield _upcast(rows).append_column("sha256", pa.repeat("", rows.num_rows))

    return write_file(root, source, day, read())


def to_actions(parts: Iterable[FilePart], *, is_new: bool = True) -> list[AddAction]:
    """The actions of the commit that makes these files part of the table.

    is_new: whether their rows are, too, as those of an append; those of a merge are not.
    """
    by_file = groupby(sorted(parts), key=lambda part: part.path)
    return [_to_action([*of_file], is_new) for _, of_file in by_file]


def _to_action(parts: Sequence[FilePart], is_new: bool) -> AddAction:
    first, now = parts[0], to_millis(datetime.now(UTC))
    values = partition_values(first.source, first.event_date)
    return AddAction(first.path, first.size, values, now, is_new, json.dumps(_statistics(parts)))


def partition_values(source: str, day: date) -> dict[str, str | None]:
    """The values of the columns by which the table is partitioned, as Delta's log has them."""
    return {"source": source, "event_date": day.isoformat()}


def _statistics(parts: Sequence[FilePart]) -> dict[str, Any]:
    """The statistics by which readers of the table skip files, as Delta's protocol has them."""
    least = {"partition": parts[0].partition, "offset": min(part.first_offset for part in parts)}
    most = {"partition": parts[-1].partition, "offset": max(part.last_offset for part in parts)}
    return {
        "numRecords": sum(part.rows for part in parts),
        "minValues": least | _instant(min, (part.earliest for part in parts)),
        "maxValues": most | _instant(max, (part.latest for part in parts)),
        "nullCount": {"partition": 0, "offset": 0},
    }


def _instant(choose: Callable[..., int], micros: Iterable[int | None]) -> dict[str, str]:
    known = [instant for instant in micros if instant is not None]
    if not known:
        return {}
    at = EPOCH.replace(tzinfo=None) + timedelta(microseconds=choose(known))
    return {"happened_at": f"{at.isoformat(timespec='microseconds')}Z"}
