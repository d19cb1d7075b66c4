"""Sink of view rows: from the executors into Cassandra, and their announcement.

A row is a max-register by write timestamp (epoch, events). After the rows one `view-updates` record
is sent for each changed (family, store, window), at least once.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, TypeAlias

import msgspec
from cassandra.cluster import Session
from cassandra.query import BoundStatement

from runtime.cassandra.day_spans import DaySpan, SpanKey, SpanTable, activity_table, axis_table
from runtime.cassandra.writes import binder, prepare_idempotent, write_groups
from runtime.connect import CQL_DATE_ZERO, kafka_producer, worker_session
from runtime.kafka.producer import BlockingProducer
from tally.algebra.merge import register
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tally.families.family import Family
from tally.time.instants import format_utc, from_millis
from tally.time.windows import WINDOW_SECONDS

DAY_SECONDS = 86_400
# Cassandra refuses a time to live above 20 years, and one that ends after 2038-01-19 (31 bits); a
# day is left for clocks that differ.
LONGEST_TTL_SECONDS = 630_720_000
LAST_EXPIRY = 2_147_483_646 - DAY_SECONDS

# Most keys that a worker remembers of one table: half a kilobyte each, and items may be very many.
MAX_REMEMBERED = 100_000
# The axes of a row follow its store, day and start of the window.
_FIRST_AXIS = 3

UPDATES_TOPIC = "view-updates"
_FLUSH_SECONDS = 60.0

# A row in the columns of row_columns(), and the rows of one window.
SpeedRow: TypeAlias = tuple[Any, ...]
WindowRows: TypeAlias = tuple[Family, Sequence[SpeedRow]]


def row_columns(family: Family) -> tuple[str, ...]:
    """Every column of the family's speed table, in the order in which rows go to the writers."""
    return (
        # The operator fills in rows by these places, and the sink finds key, day and start by them.
        "store_id",
        "day",
        "window_start",
        *family.axes,
        "dim",
        "dim_value",
        "events",
        *family.part_names,
        "epoch",
    )


def insert_statement(family: Family, keyspace: str) -> str:
    """The INSERT of a speed row: every column, so that a row is never a mix of two writes."""
    columns = row_columns(family)
    # Each write has all columns: a column that an update leaves out expires at its old time (seen).
    names = ", ".join(f'"{name}"' for name in columns)
    marks = ", ".join("?" * len(columns))
    return (
        f"INSERT INTO {keyspace}.{family.speed_table} ({names})"
        f" VALUES ({marks}) USING TIMESTAMP ? AND TTL ?"
    )


def seconds_to_live(window_start_millis: int, retention_days: int, now_seconds: float) -> int:
    """Seconds until the retention has passed, within what Cassandra can store; 0: without end."""
    window_end = window_start_millis // 1000 + WINDOW_SECONDS
    # A row of years ago that is replayed today lives as long as a new one.
    ends = min(max(window_end, now_seconds) + retention_days * DAY_SECONDS, LAST_EXPIRY)
    return max(0, min(LONGEST_TTL_SECONDS, int(ends - now_seconds)))


class RowSink:
    """Writes rows, then announces their windows, and at the end writes the stores' days."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._session = settings, worker_session(settings)
        self._updates = ViewUpdates(settings)
        self._tables: dict[str, FamilyTable] = {}

    def write(self, windows: Sequence[WindowRows]) -> None:
        """Block until the rows are acknowledged by Cassandra. Raises CassandraWriteTimeout.

        The rows of a window become visible together: who sees one currency sees the others as new.
        """
        # One instant for all rows: rows of a window with different expiries would silently sum to
        # less, for as long as one of them is left.
        now = time.time()
        writes = (self._bind_rows(family, rows, now) for family, rows in windows)
        write_groups(self._session, writes)
        # Announced only now: a subscriber that gets an update must find its rows.
        for family, rows in windows:
            store_id, _, start, *_, epoch = first = rows[0]
            seen = first[self._table(family).events]
            self._updates.announce(family.name, store_id, start, seen, epoch)
        for family in {family for family, _ in windows}:
            noted = [row for other, rows in windows if other == family for row in rows]
            self._table(family).activity.note(noted)

    def flush(self) -> None:
        """Block until all is acknowledged. Raises SendFailed, CassandraWriteTimeout."""
        for table in self._tables.values():
            table.activity.flush()
        self._updates.flush()

    def timestamp(self, family: Family, row: SpeedRow) -> int:
        """The write timestamp of a row, its register by epoch and events."""
        return register(row[-1], row[self._table(family).events])

    def _bind_rows(
        self, family: Family, rows: Sequence[SpeedRow], now: float
    ) -> list[BoundStatement]:
        insert = self._table(family).insert
        ttl = seconds_to_live(rows[0][2], self._settings.speed_retention_days, now)
        return [
            insert(
                (
                    row[0],
                    row[1] + CQL_DATE_ZERO,
                    *row[2:],
                    self.timestamp(family, row),
                    ttl,
                )
            )
            for row in rows
        ]

    def _table(self, family: Family) -> "FamilyTable":
        if family.name not in self._tables:
            self._tables[family.name] = FamilyTable(family, self._session)
        return self._tables[family.name]


# A function that a test may replace by one that makes another sink.
MakeSink = Callable[[Settings], RowSink]


@cache
def worker_sink(make: MakeSink, settings: Settings) -> RowSink:
    """The sink of this Python worker, made on first use: a session does not survive a fork."""
    return make(settings)


class FamilyTable:
    """A family's INSERT, the place of `events` in a row, and the noted days of the stores."""

    def __init__(self, family: Family, session: Session) -> None:
        # The explicit timestamp makes a repeated write identical.
        statement = insert_statement(family, session.keyspace)
        self.insert = binder(prepare_idempotent(session, statement))
        self.events = row_columns(family).index("events")
        self.activity = StoreActivity(family, session)


class ViewUpdates:
    """The producer of one Python worker."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # A callback for each of thousands of sent records would cost as much as sending them.
        producer = kafka_producer(settings, {"delivery.report.only.error": True})
        self._sender = BlockingProducer(producer, _FLUSH_SECONDS, reports_failures_only=True)

    def announce(
        self, family: str, store_id: str, window_start: int, events: int, epoch: int
    ) -> None:
        """Begin to send one changed window (milliseconds since 1970), with its rows' register."""
        update = {
            "family": family,
            "store_id": store_id,
            "window_start": _window_text(window_start),
            "events": events,
            "epoch": epoch,
        }
        # The partition is explicit: client libraries choose different partitions for the same key.
        partition = partition_number(store_id, self._settings.partitions)
        self._sender.send(UPDATES_TOPIC, msgspec.json.encode(update), store_id, partition)

    def flush(self) -> None:
        """Block until every window is acknowledged by all in-sync replicas. Raises SendFailed."""
        # Then the micro-batch fails, and is repeated after a restart.
        self._sender.flush(f"topic {UPDATES_TOPIC}", "look into the broker's log")


# The windows of a micro-batch begin at few instants, whatever the number of stores.
@lru_cache(maxsize=10_000)
def _window_text(millis: int) -> str:
    return format_utc(from_millis(millis))


class StoreActivity:
    """First and last day of each store's events, and of each value that an axis has in a store."""

    def __init__(self, family: Family, session: Session) -> None:
        self._stores = DaySpans(session, activity_table(session, family.name))
        # Each entry has the axis's place in a row.
        self._axes = [
            (place, DaySpans(session, axis_table(session, family.name, axis)))
            for place, axis in enumerate(family.axes, _FIRST_AXIS)
        ]

    def note(self, rows: Sequence[Sequence[Any]]) -> None:
        """Note the stores, days (since 1970) and axes of rows of the family's speed table."""
        self._stores.note(((row[0],), row[1]) for row in rows)
        days = [row[1] for row in rows]
        for place, spans in self._axes:
            keys = ((row[0], row[place]) for row in rows)
            spans.note(zip(keys, days, strict=True))

    def flush(self) -> None:
        """Block until all noted days are acknowledged. Raises CassandraWriteTimeout."""
        self._stores.flush()
        for _, spans in self._axes:
            spans.flush()


class DaySpans:
    """First and last day by key in one table; a key is written again only when its span grows."""

    def __init__(self, session: Session, table: SpanTable) -> None:
        self._session, self._table = session, table
        # The spans seen, those of them not written yet, and those that Cassandra has acknowledged.
        self._seen: dict[SpanKey, DaySpan] = {}
        self._changed: dict[SpanKey, DaySpan] = {}
        self._written: dict[SpanKey, DaySpan] = {}

    def note(self, days: Iterable[tuple[SpanKey, int]]) -> None:
        """Note keys seen on days (since 1970), to be written once by flush()."""
        for key, day in days:
            span = self._seen.get(key)
            if span is None or not span.first <= day <= span.last:
                first, last = span or (day, day)
                grown = DaySpan(min(first, day), max(last, day))
                self._seen[key] = self._changed[key] = grown

    def flush(self) -> None:
        """Block until each span that has grown is acknowledged. Raises CassandraWriteTimeout."""
        writes = (
            [write]
            for key, span in self._changed.items()
            for write in self._table.build_writes(key, span, self._written.get(key))
        )
        write_groups(self._session, writes)
        self._written.update(self._changed)
        self._changed.clear()
        # The memory is cleared all at once: a repeated key is written again, and registers decide.
        if len(self._seen) > MAX_REMEMBERED:
            self._seen.clear()
            self._written.clear()
