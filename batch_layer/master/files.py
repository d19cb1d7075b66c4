"""The Parquet files of one append, which Spark's tasks write into the folder of the table.

A file belongs to the table once a commit names it: what a failed task or a killed ingest leaves
behind is read by nobody, and maintenance removes it.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial, reduce
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from schemas.loader import master_schema
from tally.time.instants import to_millis

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
# Of a text, as in Spark's own statistics.
_BOUND_CHARACTERS = 32
Batches = Iterable[pa.RecordBatch]
_FILE_COLUMNS = pa.schema(
    [column for column in MASTER_COLUMNS if column.name not in PARTITIONED_BY]
)


class SourceDay(NamedTuple):
    """A canonical topic and a UTC day, by which the table is partitioned."""

    source: str
    day: date

    @property
    def values(self) -> dict[str, str | None]:
        """Its values as Delta's log has them."""
        return {"source": self.source, "event_date": self.day.isoformat()}


class FilePart(NamedTuple):
    """The records of one file that come from one partition; instants in microseconds since 1970.

    last_micros, last_sha256: Kafka timestamp and digest of the record at last_offset.
    first_arrival: least Kafka timestamp of readable records; None where no record can be read.
    bounds: least and greatest values of the whole file's columns, as JSON.
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
    first_arrival: int | None
    bounds: str


_PART_COLUMNS = (
    "path string, size bigint, source string, event_date date, partition int, rows bigint,"
    " first_offset bigint, last_offset bigint, last_micros bigint, last_sha256 string,"
    " first_arrival bigint, bounds string"
)


def write_files(records: DataFrame, table: Path) -> list[FilePart]:
    """Write one file for each source and day, by one Spark action; what they hold is returned.

    In:  batch_layer.master.table.master_records().
    Out: no DataFrame.
    """
    columns, root = StructType.fromDDL(_PART_COLUMNS), str(table)
    assert isinstance(columns, StructType)
    arrow = to_arrow_schema(columns)

    def write(batches: Batches) -> Iterator[pa.RecordBatch]:
        for parts in write_days(root, batches):
            yield pa.RecordBatch.from_pylist([part._asdict() for part in parts], schema=arrow)

    # The rows of a day go to one task, which writes one file per day.
    by_day = records.repartition(*PARTITIONED_BY).sortWithinPartitions(*_ORDER)
    return [FilePart(*row) for row in by_day.mapInArrow(write, columns).collect()]


def write_days(root: str, batches: Batches) -> Iterator[list[FilePart]]:
    """Write the files of one task; yield each file's parts.

    In:  master_records(), ordered by source, day, partition and offset.
    """
    slices = (part for batch in batches for part in _split_by_day(batch))
    for source_day, grouped in groupby(slices, key=lambda part: part.of):
        yield write_file(root, source_day, (part.rows for part in grouped))


class _DaySlice(NamedTuple):
    of: SourceDay
    rows: pa.RecordBatch


def _split_by_day(batch: pa.RecordBatch) -> Iterator[_DaySlice]:
    """Each run of rows of one source and day; the batch is ordered by both."""
    # By the rows themselves: groups of group_by() do not always come in the order of their rows. Of
    # 1,080 days 3 were exchanged with others (seen).
    keys = [batch[name] for name in PARTITIONED_BY]
    differs = [pc.not_equal(key[1:], key[:-1]) for key in keys]
    last_rows = pc.indices_nonzero(reduce(pc.or_, differs)).to_pylist()
    begins = [0, *(row + 1 for row in last_rows)]
    for begin, end in pairwise([*begins, batch.num_rows]):
        if begin < end:
            of = SourceDay(*(key[begin].as_py() for key in keys))
            yield _DaySlice(of, batch.slice(begin, end - begin))


# By the column of the result: the column that is aggregated, and how.
_Aggregates = Mapping[str, tuple[str, str]]
# The rows are ordered by partition and offset, so the last row of each has its highest offset.
_SUMMARY: _Aggregates = {
    "rows": ("offset", "count"),
    "first_offset": ("offset", "min"),
    "last_offset": ("offset", "max"),
    "last_micros": ("committed_at", "last"),
    "last_sha256": ("sha256", "last"),
    "first_arrival": ("readable_at", "min"),
}
# The same of several summaries, one after the other.
_AGAIN = {"rows": "sum", "first_offset": "min", "first_arrival": "min"}
_SUMMARY_OF_SUMMARIES: _Aggregates = {name: (name, _AGAIN.get(name, "last")) for name in _SUMMARY}
_NUMBERS = pa.schema(
    [
        ("partition", pa.int32()),
        *((name, pa.int64()) for name in ("rows", "first_offset", "last_offset", "last_micros")),
        ("last_sha256", pa.string()),
        ("first_arrival", pa.int64()),
    ]
)


def write_file(root: str, of: SourceDay, slices: Batches) -> list[FilePart]:
    """Write one file of the source's records of a day, and summarise it by partition.

    In:  master_records() of that day, ordered by partition and offset.
    """
    path = f"source={of.source}/event_date={of.day.isoformat()}/{uuid4().hex}.zstd.parquet"
    file = Path(root, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    summaries = []
    with pq.ParquetWriter(file, _FILE_COLUMNS, compression="zstd") as writer:
        for rows in _coalesce(slices):
            writer.write_table(rows.select(_FILE_COLUMNS.names).cast(_FILE_COLUMNS))
            is_readable = pc.is_valid(rows["event_id"])
            readable_at = pc.if_else(is_readable, rows["committed_at"], None)
            summaries.append(_summarise(rows.append_column("readable_at", readable_at), _SUMMARY))
    found = _summarise(pa.concat_tables(summaries), _SUMMARY_OF_SUMMARIES).cast(_NUMBERS)
    size = file.stat().st_size
    bounds = json.dumps(read_bounds(pq.read_metadata(file)))
    file_part = partial(
        FilePart, path=path, size=size, source=of.source, event_date=of.day, bounds=bounds
    )
    return [file_part(**row) for row in found.to_pylist()]


def read_bounds(file: pq.FileMetaData) -> dict[str, dict[str, Any]]:
    """The statistics of a Parquet file's columns, as Delta's log has them.

    Of all columns: a reader of delta-rs takes a missing bound for one that no value meets.
    """
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    row_groups = [file.row_group(number) for number in range(file.num_row_groups)]
    for place, name in enumerate(file.schema.names):
        groups = [row_group.column(place).statistics for row_group in row_groups]
        nulls[name] = sum(group.null_count for group in groups)
        held = [group for group in groups if group.num_values]
        if held and all(group.has_min_max for group in held):
            least[name] = _lower_bound(min(group.min for group in held))
            most[name] = _upper_bound(max(group.max for group in held))
        elif held:
            # Of texts above 4,096 bytes Parquet notes no bounds.
            least[name], most[name] = "", chr(sys.maxunicode)
    return {"minValues": least, "maxValues": most, "nullCount": nulls}


def _lower_bound(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_BOUND_CHARACTERS]
    return _format_instant(value) if isinstance(value, datetime) else value


def _upper_bound(value: Any) -> Any:
    if isinstance(value, str):
        cut = value[:_BOUND_CHARACTERS]
        return cut if cut == value else cut + chr(sys.maxunicode)
    return _format_instant(value) if isinstance(value, datetime) else value


def _format_instant(instant: datetime) -> str:
    return f"{instant.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _coalesce(slices: Batches) -> Iterator[pa.Table]:
    """The rows in tables that are large enough for a row group of their own."""
    waiting: list[pa.RecordBatch] = []
    for rows in slices:
        waiting.append(rows)
        if sum(part.nbytes for part in waiting) >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _summarise(rows: pa.Table, columns: _Aggregates) -> pa.Table:
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


def merge_files(root: str, of: SourceDay, paths: Iterable[str]) -> list[FilePart]:
    """Write one file of the rows of several of a source and day; summarised without digests."""
    return write_file(root, of, _read_upcast(root, paths))


def _read_upcast(root: str, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """The rows of the files in today's columns, with empty digests."""
    for path in paths:
        with pq.ParquetFile(Path(root, path)) as file:
            for rows in file.iter_batches():
                yield _upcast(rows).append_column("sha256", pa.repeat("", rows.num_rows))


def to_actions(parts: Iterable[FilePart], *, is_new: bool = True) -> list[AddAction]:
    """The actions of the commit that makes these files part of the table.

    is_new: whether their rows are, too, as those of an append; those of a merge are not.
    """
    by_file = groupby(sorted(parts), key=lambda part: part.path)
    return [_to_action([*of_file], is_new) for _, of_file in by_file]


def _to_action(parts: Sequence[FilePart], is_new: bool) -> AddAction:
    first, now = parts[0], to_millis(datetime.now(UTC))
    values = SourceDay(first.source, first.event_date).values
    rows = sum(part.rows for part in parts)
    statistics = json.dumps({"numRecords": rows, **json.loads(first.bounds)})
    return AddAction(first.path, first.size, values, now, is_new, statistics)
