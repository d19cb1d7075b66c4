"""What Cassandra holds of a generation, read back by the executors, and which windows differ from what was served before."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date
from itertools import islice
from typing import Any

import pyarrow as pa
from cassandra.concurrent import execute_concurrent_with_args
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from batch_layer.views.outbox import KEEP_WINDOW, bucket_of
from batch_layer.views.rows import CONCURRENCY, columns_of, worker_session
from tally.connect import CQL_DATE_ZERO
from tally.families import Family
from tally.settings import Settings

_PARTITIONS_AT_ONCE = 1_000
# Of one store in one question: each costs the client as much as the answer does.
_DAYS_AT_ONCE = 20

Row = tuple[Any, ...]
# Store, day in days since 1970, generation.
_Key = tuple[str, int, int]


def held_rows(partitions: DataFrame, settings: Settings, family: Family, generation: int, earlier: Mapping[date, int]) -> DataFrame:
    """The rows of the generation as Cassandra holds them; windows that it changes are kept for the restatements.

    In:  partitions: distinct store_id, day date, touched boolean (its rows may differ from those served now).
         earlier: generation that serves a day now; a day without one changes nothing.
    Out: store_id, day int (since 1970), window_start bigint (milliseconds since 1970), axes, events and parts bigint,
         changed boolean (the generation before has not just this row).
    """
    days = {(day - date(1970, 1, 1)).days: number for day, number in earlier.items()}
    texts, numbers = ("store_id", *family.axes), ("day", "window_start", "events", *family.parts)
    names = ("store_id", "day", "window_start", *family.axes, "events", *family.parts, "changed")
    types = {**dict.fromkeys(texts, pa.string()), **dict.fromkeys(numbers, pa.int64()), "changed": pa.bool_()}
    schema = pa.schema([(name, types[name]) for name in names])

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of some keys' partitions, in `schema`."""
        reader = _Reader(settings, family, generation, days)
        keys = ((key["store_id"], key["day"], key["touched"]) for batch in batches for key in batch.to_pylist())
        while some := list(islice(keys, _PARTITIONS_AT_ONCE)):
            yield pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in reader.rows(some)], schema=schema)

    tasks = partitions.sparkSession.sparkContext.defaultParallelism
    keys = partitions.select("store_id", F.unix_date("day").alias("day"), "touched").repartition(tasks, "store_id")
    columns = [f"`{name}` {'string' if name in texts else 'boolean' if name == 'changed' else 'bigint'}" for name in names]
    return keys.sortWithinPartitions("store_id", "day").mapInArrow(read, ", ".join(columns))


class _Reader:
    """Reads (store, day) partitions of two generations."""

    def __init__(self, settings: Settings, family: Family, generation: int, earlier: Mapping[int, int]) -> None:
        self._session = worker_session(settings)
        self._family, self._generation, self._earlier = family, generation, earlier
        self._kept = columns_of(family)[2:]
        columns = ", ".join(f'"{name}"' for name in self._kept)
        where = "store_id = ? AND day IN ? AND generation = ?"
        self._select = self._session.prepare(f"SELECT day, {columns} FROM {family.batch_table} WHERE {where}")
        self._keep = self._session.prepare(KEEP_WINDOW)
        self._keep.is_idempotent = True

    def rows(self, keys: list[tuple[str, int, bool]]) -> list[Row]:
        """Rows of the partitions in the shape of held_rows(); changed windows have been kept when this returns."""
        held = self._read([(store_id, day, self._generation) for store_id, day, _ in keys])
        compared = [(store_id, day, self._earlier[day]) for store_id, day, touched in keys if touched and day in self._earlier]
        before = {key: set(rows) for key, rows in self._read(compared).items()}
        shown = [self._kept.index(name) for name in ("window_start", *self._family.axes, "events", *self._family.parts)]
        found, changed = [], set[_Key]()
        for store_id, day, _ in keys:
            earlier = self._earlier.get(day, 0)
            served = before.get((store_id, day, earlier))
            for row in held[store_id, day, self._generation]:
                is_changed = served is not None and row not in served
                found.append((store_id, day, *(row[i] for i in shown), is_changed))
                if is_changed:
                    changed.add((store_id, row[0], earlier))
        self._keep_windows(changed)
        return found

    def _read(self, keys: list[_Key]) -> dict[_Key, list[Row]]:
        """The rows of each partition, ascending."""
        days: dict[tuple[str, int], list[int]] = defaultdict(list)
        for store_id, day, generation in keys:
            days[store_id, generation].append(day + CQL_DATE_ZERO)
        asked = [
            (store_id, some[begin : begin + _DAYS_AT_ONCE], generation)
            for (store_id, generation), some in days.items()
            for begin in range(0, len(some), _DAYS_AT_ONCE)
        ]
        answers = execute_concurrent_with_args(self._session, self._select, asked, concurrency=CONCURRENCY, raise_on_first_error=True)
        rows: dict[_Key, list[Row]] = {key: [] for key in keys}
        for (store_id, _, generation), answer in zip(asked, answers, strict=True):
            for day, *row in answer.result_or_exc:
                rows[store_id, day.days_from_epoch, generation].append(_in_millis(row))
        return rows

    def _keep_windows(self, changed: set[tuple[str, int, int]]) -> None:
        family, generation = self._family.name, self._generation
        rows = [(family, generation, bucket_of(store_id), store_id, start, before) for store_id, start, before in sorted(changed)]
        execute_concurrent_with_args(self._session, self._keep, rows, concurrency=CONCURRENCY, raise_on_first_error=True)


def _in_millis(row: Sequence[Any]) -> Row:
    return (round(row[0].replace(tzinfo=UTC).timestamp() * 1000), *row[1:])
