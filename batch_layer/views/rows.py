"""Rows of a new generation into Cassandra, from the executors."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from cassandra.query import BoundStatement
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.arrow import rows_of
from runtime.binding import binder
from runtime.connect import CQL_DATE_ZERO, worker_session
from runtime.writes import prepared, write_groups
from tally.families import Family
from tally.settings import Settings

BatchRow = tuple[Any, ...]


def columns_of(family: Family) -> tuple[str, ...]:
    """Columns of the family's batch table but the generation.

    In the order in which rows travel to the writers.
    """
    return (
        "store_id",
        "day",
        *family.row_key,
        "events",
        *family.part_names,
        "epoch",
        *family.excluded_parts,
    )


def write_generation(rows: DataFrame, settings: Settings, family: Family, generation: int) -> int:
    """How many rows were written under the generation, by the executors, every one acknowledged.

    In:  tally.frames.window_rows().
    Out: the number of rows; the batch table has their columns, and the generation.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = GenerationWriter(settings, family, generation)
        written = writer.write(row for batch in batches for row in rows_of(batch))
        yield pa.RecordBatch.from_pydict({"rows": [written]})

    plain = {
        "day": F.unix_date("day").alias("day"),
        "window_start": F.unix_millis("window_start").alias("window_start"),
    }
    columns = [plain.get(name, F.col(name)) for name in columns_of(family)]
    # The number is given, else Spark would make one task of so few bytes; a day of a store lies in
    # one of them.
    tasks = rows.sparkSession.sparkContext.defaultParallelism
    ordered = (
        rows.select(*columns)
        .repartition(tasks, "store_id", "day")
        .sortWithinPartitions("store_id", "day", "window_start")
    )
    return sum(task["rows"] for task in ordered.mapInArrow(write, "rows bigint").collect())


class GenerationWriter:
    """Writes whole (store, day) partitions in one task."""

    def __init__(self, settings: Settings, family: Family, generation: int) -> None:
        self._session = worker_session(settings)
        self._generation = generation
        columns = columns_of(family)
        names = ", ".join(f'"{name}"' for name in (*columns, "generation"))
        # Without a timestamp of its own, unlike a speed row: a generation has one writer, and
        # nobody reads it before the flip.
        self._insert = prepared(
            self._session,
            f"INSERT INTO {family.batch_table} ({names})"
            f" VALUES ({', '.join('?' * (len(columns) + 1))})",
        )

    def write(self, rows: Iterator[BatchRow]) -> int:
        """How many rows, all acknowledged.

        Day in days and window_start in milliseconds since 1970.
        """
        count, insert = 0, binder(self._insert)

        def bound() -> Iterator[list[BoundStatement]]:
            nonlocal count
            for store_id, day, *values in rows:
                count += 1
                # A row is a group of its own: before the flip nobody reads it, so none has to be
                # seen with another.
                yield [insert((store_id, day + CQL_DATE_ZERO, *values, self._generation))]

        write_groups(self._session, bound())
        return count
