"""Rows of a new generation into Cassandra, from the executors, and what changed against the generation before."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date
from functools import cache
from itertools import groupby, islice
from typing import Any, NamedTuple

import pyarrow as pa
from cassandra.cluster import Session
from cassandra.concurrent import execute_concurrent
from cassandra.query import BatchStatement, BatchType
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tally.connect import cassandra_cluster
from tally.families import Family
from tally.settings import Settings

_CQL_DATE_ZERO = 1 << 31
_PARTITIONS_AT_ONCE = 1_000
_ROWS_A_BATCH = 50
_CONCURRENCY = 32

Row = tuple[Any, ...]


class Written(NamedTuple):
    """What one task wrote: rows acknowledged, their parts summed, and the windows that differ from the earlier generation."""

    rows: int
    sums: list[int]
    changed: list[str]


def columns_of(family: Family) -> tuple[str, ...]:
    """Columns of the family's batch table but the generation, in the order in which rows travel to the writers."""
    return ("store_id", "day", *family.row_key, "events", *family.parts, "epoch", *family.excluded_parts)


def write_generation(rows: DataFrame, settings: Settings, family: Family, generation: int, earlier: Mapping[date, int]) -> list[Written]:
    """Rows of window_rows() written under the generation by the executors, every one acknowledged: what each task wrote.

    `earlier`: generation that serves a day now; its rows are compared, days without one count as unchanged.
    """
    days = {(day - date(1970, 1, 1)).days: number for day, number in earlier.items()}
    parts = len(family.parts)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = GenerationWriter(settings, family, generation, days)
        written = writer.write(row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        yield pa.RecordBatch.from_pylist([written._asdict()], schema=schema)

    schema = pa.schema([("rows", pa.int64()), ("sums", pa.list_(pa.int64())), ("changed", pa.list_(pa.string()))])
    plain = {"day": F.unix_date("day").alias("day"), "window_start": F.unix_millis("window_start").alias("window_start")}
    columns = [plain.get(name, F.col(name)) for name in columns_of(family)]
    ordered = rows.select(*columns).sortWithinPartitions("store_id", "day", "window_start")
    found = ordered.mapInArrow(write, "rows bigint, sums array<bigint>, changed array<string>").collect()
    return [Written(task["rows"], task["sums"] or [0] * parts, task["changed"]) for task in found]


class GenerationWriter:
    """Writes whole (store, day) partitions in one task."""

    def __init__(self, settings: Settings, family: Family, generation: int, earlier: Mapping[int, int]) -> None:
        self._session = _worker_session(settings)
        self._family, self._generation, self._earlier = family, generation, earlier
        columns = columns_of(family)
        names = ", ".join(f'"{name}"' for name in (*columns, "generation"))
        self._insert = self._session.prepare(f"INSERT INTO {family.batch_table} ({names}) VALUES ({', '.join('?' * (len(columns) + 1))})")
        self._insert.is_idempotent = True
        where = "store_id = ? AND day = ? AND generation = ?"
        kept = ", ".join(f'"{name}"' for name in columns[2:])
        self._select = self._session.prepare(f"SELECT {kept} FROM {family.batch_table} WHERE {where}")

    def write(self, rows: Iterator[Row]) -> Written:
        """Everything acknowledged. Rows come sorted by store, day, window; day in days and window_start in milliseconds since 1970."""
        first = columns_of(self._family).index(self._family.parts[0])
        count, sums, changed = 0, [0] * len(self._family.parts), list[str]()
        partitions = (list(group) for _, group in groupby(rows, key=lambda row: row[:2]))
        while some := list(islice(partitions, _PARTITIONS_AT_ONCE)):
            self._insert_all(some)
            for partition in some:
                count += len(partition)
                sums = [total + sum(row[first + i] for row in partition) for i, total in enumerate(sums)]
                changed += self._changed(partition)
        return Written(count, sums, changed)

    def _insert_all(self, partitions: Sequence[list[Row]]) -> None:
        batches = [self._batch(rows[i : i + _ROWS_A_BATCH]) for rows in partitions for i in range(0, len(rows), _ROWS_A_BATCH)]
        execute_concurrent(self._session, [(batch, None) for batch in batches], concurrency=_CONCURRENCY, raise_on_first_error=True)

    def _batch(self, rows: Sequence[Row]) -> BatchStatement:
        batch = BatchStatement(batch_type=BatchType.UNLOGGED)
        batch.is_idempotent = True
        for store_id, day, *values in rows:
            batch.add(self._insert, (store_id, day + _CQL_DATE_ZERO, *values, self._generation))
        return batch

    def _changed(self, rows: Sequence[Row]) -> list[str]:
        """Windows of one (store, day), as store|milliseconds, whose rows the earlier generation does not have just so."""
        store_id, day = rows[0][:2]
        generation = self._earlier.get(day)
        if generation is None:
            return []
        before = {_in_millis(row) for row in self._session.execute(self._select, (store_id, day + _CQL_DATE_ZERO, generation))}
        return sorted({f"{store_id}|{row[2]}" for row in rows if tuple(row[2:]) not in before})


def _in_millis(row: Row) -> Row:
    return (int(row[0].replace(tzinfo=UTC).timestamp() * 1000), *row[1:])


@cache
def _worker_session(settings: Settings) -> Session:
    """The session of this Python worker, made on first use: a session does not survive a fork."""
    return cassandra_cluster(settings).connect(settings.keyspace)
