"""Rows of a generation in Cassandra: written by the executors, and read back.

Windows that differ from the generation served before are marked as changed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from cassandra.query import BoundStatement
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from batch_layer.views.publish.announcements import INSERT_WINDOW, bucket_number
from runtime.cassandra.writes import binder, chunks, prepare_idempotent, read_many, write_groups
from runtime.connect import CQL_DATE_ZERO, worker_session
from runtime.spark.arrow import to_rows
from tally.config.settings import Settings
from tally.families.family import Family
from tally.time.instants import assume_utc, to_millis

# Days of one store per query: a query costs the client as much as its answer.
_DAYS_AT_ONCE = 20

WrittenColumns = tuple[Any, ...]
# Store, day in days since 1970, generation.
_PartitionKey = tuple[str, int, int]


def column_names(family: Family) -> tuple[str, ...]:
    """Columns of the family's batch table but the generation, in the order of the rows to write."""
    values = ("events", *family.part_names, "epoch", *family.exclusion_columns)
    return ("store_id", "day", *family.row_key, *values)


def write_generation(rows: DataFrame, settings: Settings, family: Family, generation: int) -> int:
    """Write the rows under the generation on the executors; return how many were acknowledged.

    In:  tally.spark.frames.window_rows().
    Out: the number of rows; the batch table has their columns, and the generation.
    """
    names = column_names(family)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        session, count = worker_session(settings), 0
        # Without an explicit timestamp, unlike a speed row: a generation has one writer, and it is
        # not read before the flip.
        insert = binder(
            prepare_idempotent(
                session,
                f"INSERT INTO {family.batch_table} (generation, {_quote(names)})"
                f" VALUES (?{', ?' * len(names)})",
            )
        )

        def bind_rows() -> Iterator[list[BoundStatement]]:
            nonlocal count
            for batch in batches:
                count += batch.num_rows
                # Each row is its own group: no row is read before the flip, so no two rows have to
                # appear together.
                for store_id, day, *values in to_rows(batch):
                    yield [insert((generation, store_id, day + CQL_DATE_ZERO, *values))]

        write_groups(session, bind_rows())
        yield pa.RecordBatch.from_pydict({"rows": [count]})

    plain = {
        "day": F.unix_date("day").alias("day"),
        "window_start": F.unix_millis("window_start").alias("window_start"),
    }
    columns = [plain.get(name, F.col(name)) for name in names]
    # The number of tasks is explicit: Spark would make one task of so few bytes. All rows of a
    # store's day lie in one task.
    tasks = rows.sparkSession.sparkContext.defaultParallelism
    ordered = (
        rows.select(*columns)
        .repartition(tasks, "store_id", "day")
        .sortWithinPartitions("store_id", "day", "window_start")
    )
    return sum(task["rows"] for task in ordered.mapInArrow(write, "rows bigint").collect())


def _quote(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


class StoreDay(NamedTuple):
    """A store and a day since 1970; touched: its rows may differ from those that serve now."""

    store: str
    day: int
    touched: bool


class WrittenRow(NamedTuple):
    """A row that Cassandra holds; day in days and start in milliseconds since 1970.

    `parts` are those that are sums, in the family's order; changed: the generation served before
    lacks exactly this row.
    """

    store: str
    day: int
    start: int
    axes: tuple[str, ...]
    events: int
    parts: tuple[int, ...]
    changed: bool

    @property
    def window(self) -> tuple[str, int]:
        """The row's store, and its start in milliseconds since 1970."""
        return self.store, self.start


class WrittenRowReader:
    """Reads (store, day) partitions of a generation, and of the one that serves the day now.

    `earlier`: the generation that serves now, by day since 1970.
    """

    def __init__(
        self, settings: Settings, family: Family, generation: int, earlier: Mapping[int, int]
    ) -> None:
        self._session = worker_session(settings)
        self._family, self._generation, self._served_generation = family, generation, earlier
        # Store and day are left out: the query names them.
        names = column_names(family)[2:]
        first_axis = names.index("window_start") + 1
        self._axes = slice(first_axis, first_axis + len(family.axes))
        self._events = names.index("events")
        self._sums = [names.index(name) for name in family.sums]
        self._select = prepare_idempotent(
            self._session,
            f"SELECT day, {_quote(names)} FROM {family.batch_table}"
            " WHERE store_id = ? AND day IN ? AND generation = ?",
        )
        self._insert_window = prepare_idempotent(self._session, INSERT_WINDOW)

    def read_rows(self, days: Sequence[StoreDay]) -> list[WrittenRow]:
        """Rows of the generation; the windows that it changes are stored before this returns."""
        keys = [(store, day, self._generation) for store, day, _ in days]
        written = self._read(keys)
        compared = [
            (store, day, self._served_generation[day])
            for store, day, touched in days
            if touched and day in self._served_generation
        ]
        before = {key: set(rows) for key, rows in self._read(compared).items()}
        found, changed = [], set[_PartitionKey]()
        for store, day, _ in days:
            earlier = self._served_generation.get(day, 0)
            served = before.get((store, day, earlier))
            for row in written[store, day, self._generation]:
                # None where the served generation was not read, or there is none: the first
                # generation of a day replaces provisional numbers and restates nothing.
                is_changed = served is not None and row not in served
                axes, events = row[self._axes], row[self._events]
                sums = tuple([row[place] for place in self._sums])
                found.append(WrittenRow(store, day, row[0], axes, events, sums, is_changed))
                if is_changed:
                    changed.add((store, row[0], earlier))
        # Stored under this run's token before its flip: if the run dies after the flip, the next
        # run announces them.
        self._store_windows(changed)
        return found

    def _read(self, keys: list[_PartitionKey]) -> dict[_PartitionKey, list[WrittenColumns]]:
        """The rows of each partition, ascending."""
        days: dict[tuple[str, int], list[int]] = defaultdict(list)
        for store_id, day, generation in keys:
            days[store_id, generation].append(day + CQL_DATE_ZERO)
        queries = [
            (store_id, chunk, generation)
            for (store_id, generation), of_store in days.items()
            for chunk in chunks(of_store, _DAYS_AT_ONCE)
        ]
        answers = read_many(self._session, self._select, queries)
        rows: dict[_PartitionKey, list[WrittenColumns]] = {key: [] for key in keys}
        for (store_id, _, generation), answer in zip(queries, answers, strict=True):
            for day, *row in answer:
                rows[store_id, day.days_from_epoch, generation].append(_to_columns(row))
        return rows

    def _store_windows(self, changed: set[tuple[str, int, int]]) -> None:
        family, generation = self._family.name, self._generation
        rows = (
            (family, generation, bucket_number(store_id), store_id, start, before)
            for store_id, start, before in sorted(changed)
        )
        write_groups(self._session, ([self._insert_window.bind(row)] for row in rows))


def _to_columns(row: Sequence[Any]) -> WrittenColumns:
    start, *values = row
    # Rows are members of a set and must be hashable, and a part may be a list.
    return (
        to_millis(assume_utc(start)),
        *(tuple(value) if isinstance(value, list) else value for value in values),
    )
