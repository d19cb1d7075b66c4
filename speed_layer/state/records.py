"""Records of one partition on their way into the state, and the report of what became of them.

Records are packed into few Arrow streams; reports return in Spark's report of the micro-batch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, TypeAlias, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tally.algebra.merge import Axes
from tally.algebra.parts import Part, Sum, Value
from tally.families.family import Family

ID_BYTES = 16
ID_TYPE = np.dtype(f"S{ID_BYTES}")
PACKED_SCHEMA = "topic string, partition int, records binary"
Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Records:
    """Some records of one partition in order of offset; each record has one place in each column.

    `stores` are places in `names`, `axes` places in `axes_values`; `at` is in milliseconds since
    1970; `ids` are identities of 16 bytes; `parts` has one column per part,
    the record's contribution to it (tally/algebra/parts.py), and `family_parts` are the parts.
    """

    stores: Ints
    names: Sequence[str]
    at: Ints
    ids: npt.NDArray[np.bytes_]
    axes: Ints
    axes_values: Sequence[Axes]
    parts: Ints
    family_parts: Sequence[Part]

    def __len__(self) -> int:
        return len(self.at)

    @cached_property
    def singles(self) -> tuple[bytes, list[int], list[list[int]]]:
        """Identities (16 bytes each) after each other, places in axes_values, parts by record."""
        # Python objects, for windows of one record. Raw bytes: numpy strips null bytes at the end.
        return self.ids.tobytes(), self.axes.tolist(), self.parts.tolist()

    @cached_property
    def are_sums(self) -> bool:
        """Whether contributions are values that add up, as for the parts of most families."""
        return all(type(part) is Sum for part in self.family_parts)

    def single(self, place: int) -> tuple[bytes, Axes, list[Value]]:
        """Identity (16 bytes), axes and the parts' values of the record at a place."""
        ids, axes, parts = self.singles
        return (
            ids[place * ID_BYTES : (place + 1) * ID_BYTES],
            self.axes_values[axes[place]],
            parts[place] if self.are_sums else self._values(np.array([place])),
        )

    def values(self, which: Ints) -> Iterator[tuple[Axes, list[Value]]]:
        """Yield each axes value with each part's value (in the family's units) at the places."""
        if len(which) == 1:
            yield self.single(int(which[0]))[1:]
            return
        axes = self.axes[which]
        for number in np.unique(axes).tolist():
            yield self.axes_values[number], self._values(which[axes == number])

    def _values(self, which: Ints) -> list[Value]:
        brought = self.parts[which]
        if self.are_sums:
            return list(brought.sum(axis=0).tolist())
        at, columns = self.at[which].tolist(), brought.T.tolist()
        by_part = zip(self.family_parts, columns, strict=True)
        return [part.fold(at, column) for part, column in by_part]


def pack_records(records: DataFrame) -> DataFrame:
    """Pack the records of each partition into few rows, which the operator takes one by one.

    In:  topic string, partition int, then anything.
    Out: PACKED_SCHEMA; `records` is an Arrow stream of consecutive rows.
    """
    return records.mapInArrow(_pack_batches, PACKED_SCHEMA)


def _pack_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        topics, partitions = batch.columns[:2]
        # A task reads several partitions, one after the other: an Arrow batch may hold the end of
        # one and the beginning of the next.
        runs = find_runs(np.stack((_places(topics)[1], partitions.to_numpy())))
        firsts = pa.array([begin for begin, _ in runs])
        streams = [_stream(batch.slice(begin, end - begin)) for begin, end in runs]
        columns = [
            topics.take(firsts),
            partitions.take(firsts),
            pa.array(streams, pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=["topic", "partition", "records"])


def find_runs(keys: Ints) -> list[tuple[int, int]]:
    """Begin and end (exclusive) of each run of equal columns, as places.

    >>> find_runs(np.array([[1, 1, 2], [5, 5, 5]]))
    [(0, 2), (2, 3)]
    """
    if keys.shape[1] == 0:
        return []
    earlier, later = keys[:, :-1], keys[:, 1:]
    differs = (later != earlier).any(axis=0)
    begins = np.flatnonzero(np.r_[True, differs]).tolist()
    ends = [*begins[1:], keys.shape[1]]
    return list(zip(begins, ends, strict=True))


def _stream(batch: pa.RecordBatch) -> bytes:
    # Arrow's own format: columns are read from it without a Python object per record.
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def unpack_records(streams: Iterable[bytes]) -> pa.Table:
    """The rows of some packed streams of one partition, in order of offset."""
    tables = (pa.ipc.open_stream(stream).read_all() for stream in streams)
    return pa.concat_tables(tables).sort_by("offset")


def to_records(table: pa.Table, family: Family) -> Records:
    """The records of a table with the columns of speed_layer.views.operator_input()."""
    names, stores = _places(table["store_id"].combine_chunks())
    axes_values, axes = _axes(table, family)
    parts = [table[part].to_numpy() for part in family.part_names]
    return Records(
        stores,
        names,
        table["at"].to_numpy(),
        _ids(table["id"]),
        axes,
        axes_values,
        np.column_stack(parts).astype(np.int64, copy=False),
        family.parts,
    )


def _places(column: pa.Array) -> tuple[list[Any], Ints]:
    """The distinct values, and the place of each row's value among them."""
    encoded = pc.dictionary_encode(column)
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


def _axes(table: pa.Table, family: Family) -> tuple[list[Axes], Ints]:
    values: list[Axes] = [()]
    places = np.zeros(table.num_rows, np.int64)
    for axis in family.axes:
        names, here = _places(table[axis].combine_chunks())
        places = places * len(names) + here
        values = [(*value, name) for value in values for name in names]
    return values, places


def _ids(column: pa.ChunkedArray) -> npt.NDArray[np.bytes_]:
    return np.frombuffer(b"".join(column.to_pylist()), dtype=ID_TYPE)


# The name under which Spark's report has them.
REPORT_METRIC = "acks"
# Reasons why a record is left out of the views; the first means that it is not.
# The order is that of their weight: a record with several reasons counts under the first, so that
# the counts add up to the records read.
SKIP_REASONS = ("", "unreadable", "repeats", "below_floor", "ahead")
NO_CRC = -1  # a checksum is never negative


@dataclass(frozen=True)
class PartitionReport:
    """State of one partition after a micro-batch.

    All its rows and announcements are acknowledged by Cassandra and Kafka. `rows` is how many were
    written. `offset` and `crc` are of the last record that was read and had a value, NO_CRC if
    there was none. `late` records found their window closed; the others were left out for the
    reason in the field's name. `frontier` is the latest instant so far, in milliseconds since 1970;
    windows that begin before `floor` are left to the rebuild. Both are None for a query that keeps
    no windows.
    """

    topic: str
    partition: int
    rows: int
    offset: int = NO_CRC
    crc: int = NO_CRC
    unreadable: int = 0
    repeats: int = 0
    below_floor: int = 0
    ahead: int = 0
    late: int = 0
    frontier: int | None = None
    floor: int | None = None


# Derived from the class, like Arrow's types below: a mismatch between Spark's and Python's columns
# would only be noticed by the first micro-batch.
REPORT_SCHEMA = ", ".join(
    f"{name} {'string' if kind is str else 'bigint'}"
    for name, kind in get_type_hints(PartitionReport).items()
)


def observe_reports(reports: DataFrame) -> DataFrame:
    """Add the partition reports to Spark's report of their micro-batch (observed metrics).

    In:  REPORT_SCHEMA, one row for each partition that the micro-batch has read.
    Out: the same rows; Spark's report has them as a list under REPORT_METRIC.
    """
    columns = F.struct(*(field.name for field in fields(PartitionReport)))
    return reports.observe(REPORT_METRIC, F.collect_list(columns).alias(REPORT_METRIC))


def parse_reports(batch_report: Mapping[str, Any]) -> list[PartitionReport]:
    """The partition reports in Spark's report of a micro-batch."""
    metrics = batch_report.get("observedMetrics", {}).get(REPORT_METRIC, {})
    return [PartitionReport(**values) for values in metrics.get(REPORT_METRIC) or []]


def to_record_batch(reports: Iterable[PartitionReport]) -> pa.RecordBatch:
    """The reports as an Arrow batch in Spark's columns (REPORT_SCHEMA)."""
    hints, text, number = get_type_hints(PartitionReport), pa.string(), pa.int64()
    columns = [(name, text if hints[name] is str else number) for name in hints]
    rows = [asdict(report) for report in reports]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(columns))


def crc_column(value: str) -> Column:
    """CRC-32 of a value, NO_CRC for a null.

    In:  name of a column of string or binary.
    Out: crc bigint, 0 to 2^32 - 1, or NO_CRC.
    """
    crc = F.crc32(F.col(value).cast("binary"))
    return F.coalesce(crc, F.lit(NO_CRC)).alias("crc")


def last_read(records: pa.Table) -> tuple[int, int]:
    """Offset and CRC-32 of the last record by offset that has a value; NO_CRC for both if none."""
    # Two records without a value cannot be distinguished: they are not noted.
    valued = records.filter(pc.not_equal(records["crc"], NO_CRC))
    if not valued.num_rows:
        return NO_CRC, NO_CRC
    offset, crc = valued["offset"][-1], valued["crc"][-1]
    return offset.as_py(), crc.as_py()
