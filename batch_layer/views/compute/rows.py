"""Writer of a new generation's rows: from the executors into Cassandra."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from cassandra.query import BoundStatement
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.cassandra.writes import binder, prepare_idempotent, write_groups
from runtime.connect import CQL_DATE_ZERO, worker_session
from runtime.spark.arrow import to_rows
from tally.config.settings import Settings
from tally.families.family import Family

BatchRow = tuple[Any, ...]


def column_names(family: Family) -> tuple[str, ...]:
    """Columns of the family's batch table except the generation.

    Their order is that of the rows on the way to the writers.
    """
    return (
        "store_id",
        "day",
        *family.row_key,
        "events",
        *family.part_names,
        "epoch",
        *family.exclusion_columns,
    )


def write_generation(rows: DataFrame, settings: Settings, family: Family, generation: int) -> int:
    """Write the rows under the generation on the executors; return how many were acknowledged.

    In:  tally.spark.frames.window_rows().
    Out: the number of rows; the batch table has their columns, and the generation.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = GenerationWriter(settings, family, generation)
        written = writer.write(row for batch in batches for row in to_rows(batch))
        yield pa.RecordBatch.from_pydict({"rows": [written]})

    plain = {
        "day": F.unix_date("day").alias("day"),
        "window_start": F.unix_millis("window_start").alias("window_start"),
    }
    columns = [plain.get(name, F.col(name)) for name in column_names(family)]
    # The number of tasks is explicit: Spark would make one task of so few bytes. All rows of a
    # store's day lie in one task.
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
        columns = column_names(family)
        names = ", ".join(f'"{name}"' for name in (*columns, "generation"))
        # Without an explicit timestamp, unlike a speed row: a generation has one writer, and it is
        # not read before the flip.
        self._insert = prepare_idempotent(
            self._session,
            f"INSERT INTO {family.batch_table} ({names})"
            f" VALUES ({', '.join('?' * (len(columns) + 1))})",
        )

    def write(self, rows: Iterator[BatchRow]) -> int:
        """Write the rows and return how many there were, all acknowledged.

        Day is in days and window_start in milliseconds since 1970.
        """
        count, insert = 0, binder(self._insert)

        def bind_rows() -> Iterator[list[BoundStatement]]:
            nonlocal count
            for store_id, day, *values in rows:
                count += 1
                # Each row is its own group: no row is read before the flip, so no two rows have to
                # appear together.
                yield [insert((store_id, day + CQL_DATE_ZERO, *values, self._generation))]

        write_groups(self._session, bind_rows())
        return count
