"""Records of one partition on their way into the state.

They are packed into few Arrow streams, and read as columns of numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

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
        """Identities (16 bytes each) one after the other, places in axes_values, parts by record.

        They are Python objects, for windows of one record.
        """
        # Raw bytes and not the array's values: numpy strips null bytes off the end of a value.
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
        """Yield each axes value once, with the value of each part over the records at these places.

        Parts are in the family's order and units.
        """
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
    """Pack the records of each partition into few rows.

    Spark's stateful operator processes rows one by one in Python.

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
    return list(
        zip(begins, [*begins[1:], keys.shape[1]], strict=True),
    )


def _stream(batch: pa.RecordBatch) -> bytes:
    # Arrow's own format: columns are read from it without a Python object per record.
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def unpack_records(streams: Iterable[bytes]) -> pa.Table:
    """The rows of some packed streams of one partition, in order of offset."""
    return pa.concat_tables(pa.ipc.open_stream(stream).read_all() for stream in streams).sort_by(
        "offset"
    )


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
