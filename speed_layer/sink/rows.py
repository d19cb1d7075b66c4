"""View rows into Cassandra, from the executors: a max-register by write timestamp (epoch, events)."""

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from cassandra.cluster import PreparedStatement, Session
from cassandra.query import BoundStatement
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.writes import write_groups
from speed_layer.sink.activity import StoreActivity
from speed_layer.sink.updates import ViewUpdates
from tally.connect import CQL_DATE_ZERO, cassandra_cluster
from tally.families import Family
from tally.settings import Settings

EPOCH_SHIFT = 40
WINDOW_SECONDS = 900
DAY_SECONDS = 86_400
# Cassandra refuses a longer time to live, 20 years, and one that ends after 2038-01-19 (31 bits); a day is left for clocks that differ.
LONGEST_TTL_SECONDS = 630_720_000
LAST_EXPIRY = 2_147_483_646 - DAY_SECONDS
_WINDOWS_AT_ONCE = 10_000
ACKS = "rows bigint, windows bigint"
_ACK_TYPES = pa.schema([("rows", pa.int64()), ("windows", pa.int64())])

Row = tuple[Any, ...]


class Acks(NamedTuple):
    """What a micro-batch wrote: rows and windows acknowledged."""

    rows: int = 0
    windows: int = 0

    def plus(self, other: "Acks") -> "Acks":
        """Both together."""
        return Acks(self.rows + other.rows, self.windows + other.windows)


def row_columns(family: Family) -> tuple[str, ...]:
    """Every column of the family's speed table, in the order in which the rows travel to the writers."""
    return ("store_id", "day", "window_start", *family.axes, "dim", "dim_value", "events", *family.parts, "epoch")


def insert_statement(family: Family, keyspace: str) -> str:
    """The INSERT of a speed row: every column, so that a row is never a mix of two writes."""
    columns = row_columns(family)
    names, marks = ", ".join(f'"{name}"' for name in columns), ", ".join("?" * len(columns))
    return f"INSERT INTO {keyspace}.{family.speed_table} ({names}) VALUES ({marks}) USING TIMESTAMP ? AND TTL ?"


def register(epoch: int, events: int) -> int:
    """The write timestamp: the higher epoch wins, then the row that has seen more events, whoever wrote it and when.

    >>> register(1, 5) > register(1, 4) and register(2, 0) > register(1, 1_000_000)
    True
    """
    return (epoch << EPOCH_SHIFT) | events


def seconds_to_live(window_start_millis: int, retention_days: int, now_seconds: float) -> int:
    """The retention after the later of the window's end and now, as far as Cassandra can store it; 0 means without an end."""
    window_end = window_start_millis // 1000 + WINDOW_SECONDS
    ends = min(max(window_end, now_seconds) + retention_days * DAY_SECONDS, LAST_EXPIRY)
    return max(0, min(LONGEST_TTL_SECONDS, int(ends - now_seconds)))


def written(rows: DataFrame, settings: Settings, family: Family) -> DataFrame:
    """The acks of rows that the executors write and announce while they are read; no more of Python runs a micro-batch in the driver.

    In: window_rows(), of a stream or not; the rows of one window follow each other. Out: ACKS, one row a task. What the first
    failed task raised ends the action that reads them; nothing is acknowledged then and the micro-batch is repeated.
    """

    known = for_workers(settings)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        try:
            acks = worker_sink(known, family).write(batches)
        except Exception:
            # A producer may have failed for good, and this worker outlives the query: the next try gets new ones.
            worker_sink.cache_clear()
            raise
        yield pa.RecordBatch.from_pylist([acks._asdict()], schema=_ACK_TYPES)

    # As plain integers the columns need no conversion on their way into CQL's wire format.
    day, start = F.unix_date("day").alias("day"), F.unix_millis("window_start").alias("window_start")
    columns = [{"day": day, "window_start": start}.get(name, F.col(name)) for name in row_columns(family)]
    return rows.select(*columns).mapInArrow(write, ACKS)


def for_workers(settings: Settings) -> Settings:
    """The settings without the driver's folders, so that a worker that outlives one query serves the next with one session."""
    return settings.model_copy(update={"home": Path(), "checkpoints": None})


@cache
def worker_session(settings: Settings) -> Session:
    """The session of this Python worker, made on first use: a session does not survive a fork."""
    return cassandra_cluster(settings).connect(settings.keyspace)


@cache
def worker_sink(settings: Settings, family: Family) -> "RowSink":
    """The sink of this Python worker, made on first use."""
    return RowSink(settings, family, worker_session(settings))


class RowSink:
    """Writes rows, then announces their windows, then notes the stores' days."""

    def __init__(self, settings: Settings, family: Family, session: Session) -> None:
        self._settings, self._family, self._session = settings, family, session
        self._insert: PreparedStatement = session.prepare(insert_statement(family, settings.keyspace))
        self._insert.is_idempotent = True
        self._events = row_columns(family).index("events")
        self._updates = ViewUpdates(settings)
        self._activity = StoreActivity(family, session)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Acks:
        """Everything acknowledged by Cassandra, then by Kafka. The rows of one window follow each other."""
        rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        # The rows of one window count together: who sees one of its currencies sees the others as new.
        windows = (list(group) for _, group in groupby(rows, key=lambda row: row[:3]))
        acks = Acks()
        while some := list(islice(windows, _WINDOWS_AT_ONCE)):
            acks = acks.plus(self._write_windows(some))
        self._updates.flush()
        return acks

    def _write_windows(self, windows: Sequence[list[Row]]) -> Acks:
        now = time.time()
        write_groups(self._session, ([self._bound(row, now) for row in rows] for rows in windows))
        for store_id, _, start, *others in (rows[0] for rows in windows):
            self._updates.announce(self._family, store_id, datetime.fromtimestamp(start / 1000, UTC), others[self._events - 3])
        written = [row for rows in windows for row in rows]
        self._activity.note(written)
        return Acks(len(written), len(windows))

    def _bound(self, row: Row, now: float) -> BoundStatement:
        store_id, day, *others = row
        return self._insert.bind((store_id, day + CQL_DATE_ZERO, *others, self._timestamp(row, now), self._ttl(row, now)))

    def _ttl(self, row: Row, now: float) -> int:
        return seconds_to_live(row[2], self._settings.speed_retention_days, now)

    def _timestamp(self, row: Row, now: float) -> int:
        # The clock is a negative control of the tests: a replay or a second driver then overwrites richer rows.
        if self._settings.sink_register == "wall_clock":
            return int(now * 1_000_000)
        return register(row[-1], row[self._events])
