"""Rows of a generation, written by the executors: those that differ from the rows that serve now.

Windows whose rows differ are stored for the restatements.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import groupby, islice
from typing import Any, NamedTuple

import pyarrow as pa
from cassandra.cluster import Session
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from batch_layer.views.publish.announcements import INSERT_WINDOW, bucket_number
from batch_layer.views.publish.stored_rows import (
    DayRows,
    RowKeyColumns,
    RowValues,
    ServedVersions,
    StoreDay,
    StoredRows,
    days_since_1970,
    quote_names,
    to_plain,
    value_names,
)
from runtime.cassandra.writes import binder, prepare_idempotent, write_groups
from runtime.connect import CQL_DATE_ZERO, worker_session
from runtime.spark.arrow import to_rows
from tally.config.settings import Settings
from tally.families.family import Family
from tally.families.versions import NOTHING, VersionChoice

_STORE_DAYS_AT_ONCE = 200


class WrittenRows(NamedTuple):
    """How many rows a generation has written, and how many windows it has changed."""

    rows: int
    changed: int


class _ChangedRows(NamedTuple):
    """The rows of a store's day that differ; None for one that is there no more."""

    store_day: StoreDay
    rows: Mapping[RowKeyColumns, RowValues | None]


def column_names(family: Family) -> tuple[str, ...]:
    """Columns of the family's batch table but the generation, in the order of the rows to write."""
    return ("store_id", "day", *family.row_key, *value_names(family))


@dataclass(frozen=True)
class NewGeneration:
    """A generation to write; `served`: the rows that serve each day before it."""

    settings: Settings
    family: Family
    number: int
    served: Mapping[date, VersionChoice]

    def as_published(self, days: Iterable[date]) -> dict[date, VersionChoice]:
        """The rows of the days once it serves them."""
        before = {day: self.served.get(day, NOTHING) for day in days}
        return {day: choice.with_newest(self.number) for day, choice in before.items()}


def write_generation(
    rows: DataFrame, store_days: DataFrame, generation: NewGeneration
) -> WrittenRows:
    """Write the rows that differ from those that serve now under the generation, on the executors.

    In:  tally.spark.frames.window_rows(); store_id, day (int: days since 1970), distinct: the store
         days that may have changed, also those that have no row any more.
    Out: counts; a first generation of a day changes no window, as it replaces provisional numbers.
    """
    settings, family, number = generation.settings, generation.family, generation.number
    choices = days_since_1970(generation.served)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = _DifferenceWriter(worker_session(settings), family, number, choices)
        columns = (row for batch in batches for row in to_rows(batch))
        by_day = groupby(columns, key=lambda row: (row[0], row[1]))
        days = ((key, _rows_by_key(family, found)) for key, found in by_day)
        # Chunks of whole days: rows that are gone are found by comparing all of a day.
        while chunk := dict(islice(days, _STORE_DAYS_AT_ONCE)):
            written = writer.write(chunk)
            yield pa.RecordBatch.from_pydict({"rows": [written.rows], "changed": [written.changed]})

    names = column_names(family)
    numbers = {"day": F.unix_date("day"), "window_start": F.unix_millis("window_start")}
    computed = rows.withColumns(numbers).select(*names)
    # The number of tasks is explicit: Spark would make one task of so few bytes. All rows of a
    # store's day lie in one task, its mark before them.
    tasks = rows.sparkSession.sparkContext.defaultParallelism
    ordered = (
        computed.join(store_days, on=["store_id", "day"], how="left_semi")
        .unionByName(store_days, allowMissingColumns=True)
        .repartition(tasks, "store_id", "day")
        .sortWithinPartitions("store_id", "day", "window_start")
    )
    found = ordered.mapInArrow(write, "rows bigint, changed bigint").collect()
    return WrittenRows(sum(task.rows for task in found), sum(task.changed for task in found))


def _rows_by_key(family: Family, columns: Iterable[tuple[Any, ...]]) -> DayRows:
    end = 2 + len(family.row_key)
    # A mark of the store's day has no window.
    found = (tuple(map(to_plain, row)) for row in columns if row[2] is not None)
    return {row[2:end]: row[end:] for row in found}


class _DifferenceWriter:
    """Writes what differs from the chosen versions, under one generation."""

    def __init__(
        self, session: Session, family: Family, generation: int, choices: ServedVersions
    ) -> None:
        self._session, self._generation, self._choices = session, generation, choices
        self._family, self._stored = family, StoredRows(session, family)
        names = column_names(family)
        # Without an explicit timestamp, unlike a speed row: a generation has one writer, and it is
        # not read before the flip.
        self._insert = binder(
            prepare_idempotent(
                session,
                f"INSERT INTO {family.batch_table} (generation, {quote_names(names)})"
                f" VALUES (?{', ?' * len(names)})",
            )
        )
        self._insert_window = prepare_idempotent(session, INSERT_WINDOW)
        self._no_values = (None,) * len(value_names(family))

    def write(self, days: Mapping[StoreDay, DayRows]) -> WrittenRows:
        """Write the rows of these store days that differ; return once all is acknowledged."""
        before = self._stored.read([*days], self._choices)
        differences = [_find_difference(day, before[day], days[day]) for day in days]
        # Each row is its own group: no row is read before the flip, so no two rows have to appear
        # together.
        groups = (
            [self._insert((self._generation, store, day + CQL_DATE_ZERO, *key, *values))]
            for (store, day), rows in differences
            for key, values in ((key, rows[key] or self._no_values) for key in rows)
        )
        write_groups(self._session, groups)
        # Stored under this run's token before its flip: if the run dies after the flip, the next
        # run announces them.
        changed = sorted(self._find_windows(differences))
        name, token = self._family.name, self._generation
        windows = (
            (name, token, bucket_number(store), store, start, earlier)
            for store, start, earlier in changed
        )
        write_groups(self._session, ([self._insert_window.bind(row)] for row in windows))
        return WrittenRows(sum(len(rows) for _, rows in differences), len(changed))

    def _find_windows(self, differences: Iterable[_ChangedRows]) -> set[tuple[str, int, int]]:
        """The store, start and earlier generation of the windows that are restated."""
        return {
            (store, key[0], self._choices[day].generation)
            for (store, day), rows in differences
            if day in self._choices
            for key in rows
        }


def _find_difference(store_day: StoreDay, before: DayRows, now: DayRows) -> _ChangedRows:
    changed: dict[RowKeyColumns, RowValues | None] = {
        key: values for key, values in now.items() if before.get(key) != values
    }
    gone = before.keys() - now.keys()
    return _ChangedRows(store_day, changed | dict.fromkeys(gone))
