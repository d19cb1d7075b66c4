"""Rows of a new generation into Cassandra, from the executors, and what changed against the generation before."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date
from functools import cache
from itertools import groupby, islice
from typing import Any, NamedTuple

import pyarrow as pa
from cassandra.cluster import Session
from cassandra.concurrent import execute_concurrent, execute_concurrent_with_args
from cassandra.query import BatchStatement, BatchType
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tally.connect import CQL_DATE_ZERO, cassandra_cluster
from tally.families import Family
from tally.settings import Settings

_PARTITIONS_AT_ONCE = 1_000
_ROWS_A_BATCH = 50
_CONCURRENCY = 32

Row = tuple[Any, ...]


class Written(NamedTuple):
    """What tasks wrote: rows acknowledged, events of their windows and parts summed, the windows that differ from before."""

    rows: int
    events: int
    sums: list[int]
    changed: list[str]


def columns_of(family: Family) -> tuple[str, ...]:
    """Columns of the family's batch table but the generation, in the order in which rows travel to the writers."""
    return ("store_id", "day", *family.row_key, "events", *family.parts, "epoch", *family.excluded_parts)


def write_generation(rows: DataFrame, settings: Settings, family: Family, generation: int, earlier: Mapping[date, int]) -> Written:
    """Rows of window_rows(), with a column `touched`, written under the generation by the executors, every one acknowledged.

    `earlier`: generation that serves a day now; its rows of touched days are compared, days without one count as unchanged.
    """
    days = {(day - date(1970, 1, 1)).days: number for day, number in earlier.items()}
    parts = len(family.parts)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = GenerationWriter(settings, family, generation, days)
        written = writer.write(row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        yield pa.RecordBatch.from_pylist([written._asdict()], schema=schema)

    fields = [("rows", pa.int64()), ("events", pa.int64()), ("sums", pa.list_(pa.int64())), ("changed", pa.list_(pa.string()))]
    schema = pa.schema(fields)
    plain = {"day": F.unix_date("day").alias("day"), "window_start": F.unix_millis("window_start").alias("window_start")}
    columns = [plain.get(name, F.col(name)) for name in (*columns_of(family), "touched")]
    # The number is given, else Spark would make one task of so few bytes; a day of a store lies in one of them.
    tasks = rows.sparkSession.sparkContext.defaultParallelism
    ordered = rows.select(*columns).repartition(tasks, "store_id", "day").sortWithinPartitions("store_id", "day", "window_start")
    found = ordered.mapInArrow(write, "rows bigint, events bigint, sums array<bigint>, changed array<string>").collect()
    return Written(
        rows=sum(task["rows"] for task in found),
        events=sum(task["events"] for task in found),
        sums=[sum(task["sums"][i] for task in found) for i in range(parts)],
        changed=[window for task in found for window in task["changed"]],
    )


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
        columns = columns_of(self._family)
        events, first = columns.index("events"), columns.index(self._family.parts[0])
        count, seen, sums, changed = 0, 0, [0] * len(self._family.parts), list[str]()
        partitions = (list(group) for _, group in groupby(rows, key=lambda row: row[:2]))
        while some := list(islice(partitions, _PARTITIONS_AT_ONCE)):
            self._insert_all(some)
            changed += self._changed([partition for partition in some if partition[0][-1] and partition[0][1] in self._earlier])
            for partition in some:
                count += len(partition)
                # All rows of a window carry the window's events.
                seen += sum({row[2]: row[events] for row in partition}.values())
                sums = [total + sum(row[first + i] for row in partition) for i, total in enumerate(sums)]
        return Written(count, seen, sums, changed)

    def _insert_all(self, partitions: Sequence[list[Row]]) -> None:
        batches = [self._batch(rows[i : i + _ROWS_A_BATCH]) for rows in partitions for i in range(0, len(rows), _ROWS_A_BATCH)]
        execute_concurrent(self._session, [(batch, None) for batch in batches], concurrency=_CONCURRENCY, raise_on_first_error=True)

    def _batch(self, rows: Sequence[Row]) -> BatchStatement:
        batch = BatchStatement(batch_type=BatchType.UNLOGGED)
        batch.is_idempotent = True
        for store_id, day, *values, _ in rows:
            batch.add(self._insert, (store_id, day + CQL_DATE_ZERO, *values, self._generation))
        return batch

    def _changed(self, partitions: Sequence[list[Row]]) -> list[str]:
        """Windows, as store|milliseconds, whose rows the generation before does not have just so."""
        keys = [(rows[0][0], rows[0][1] + CQL_DATE_ZERO, self._earlier[rows[0][1]]) for rows in partitions]
        answers = execute_concurrent_with_args(self._session, self._select, keys, concurrency=_CONCURRENCY, raise_on_first_error=True)
        changed: set[str] = set()
        for rows, answer in zip(partitions, answers, strict=True):
            before = {_in_millis(row) for row in answer.result_or_exc}
            changed |= {f"{row[0]}|{row[2]}" for row in rows if tuple(row[2:-1]) not in before}
        return sorted(changed)


def _in_millis(row: Row) -> Row:
    return (int(row[0].replace(tzinfo=UTC).timestamp() * 1000), *row[1:])


@cache
def _worker_session(settings: Settings) -> Session:
    """The session of this Python worker, made on first use: a session does not survive a fork."""
    return cassandra_cluster(settings).connect(settings.keyspace)
