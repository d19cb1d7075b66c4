"""The serving tables: the CQL that reads them, and the values that they hold.

docs/reading-with-cql.md shows the same reads by hand.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple, TypeAlias

from runtime.records.gaps import SELECT_GAPS
from runtime.records.history import SELECT_HISTORY_BEGIN
from runtime.registry.sources import FAMILIES
from tally.algebra.merge import Axes
from tally.algebra.parts import Value
from tally.families.family import TOTAL_DIM, Family
from tally.families.generation import GENERATION_COLUMNS, RANGE_COLUMNS, AnsweredSpan
from tally.families.versions import RowVersion
from tally.time.instants import assume_utc

FLIP_TOKEN = "SELECT flip_token FROM batch_pointer WHERE family = ? LIMIT 1"
CURRENT_GENERATIONS = f"SELECT flip_token, {GENERATION_COLUMNS} FROM batch_pointer WHERE family = ?"
NEWEST = "SELECT generation FROM batch_pointer WHERE family = ? AND day >= ? AND day <= ?"
# An answer of now reads only which generation covered what: the maps of a pointer are long.
COVERINGS = f"SELECT {RANGE_COLUMNS} FROM batch_pointer_history WHERE family = ? AND day IN ?"
HISTORY = f"SELECT {GENERATION_COLUMNS} FROM batch_pointer_history WHERE family = ? AND day IN ?"
SWEPT = "SELECT day, until FROM swept_day WHERE family = ? AND day IN ?"
MASTER_UNTIL = "SELECT day, partition, until FROM master_progress WHERE family = ? AND day IN ?"
MASTER_CURRENT = "SELECT current_at FROM master_current WHERE family = ?"
FINDINGS = (
    "SELECT day, till_id, records, conflicts, accepted"
    " FROM till_finding WHERE family = ? AND day IN ? AND store_id = ?"
)
ANSWERED_SPANS = (
    "SELECT day, generation, since, until FROM answered_span"
    " WHERE store_id = ? AND family = ? AND day IN ?"
)
GAPS = f"{SELECT_GAPS} WHERE topic IN ?"
SPEED_UNTIL = "SELECT partition, until FROM speed_progress WHERE family = ?"
HISTORY_BEGIN = SELECT_HISTORY_BEGIN
LATE_RECORDS = "SELECT SUM(dropped) FROM speed_late WHERE family = ? AND recorded_in >= ?"
ACTIVITY = "SELECT store_id, first_day, last_day FROM store_activity WHERE family = ?"
STORE_ACTIVITY = "SELECT first_day, last_day FROM store_activity WHERE family = ? AND store_id = ?"
# The filter is within a partition, and the limit applies after it: of 10,000 values 1,001 took 8
# ms, and all of them 135 (measured). A span whose first or last day has not arrived is no match.
AXIS_VALUES = (
    "SELECT store_id, value FROM store_axis"
    " WHERE family = ? AND axis = ? AND store_id IN ? AND first_day <= ? AND last_day >= ?"
    " PER PARTITION LIMIT ? ALLOW FILTERING"
)
ALERTS_RAISED = "SELECT message FROM alerts_byday WHERE store_id IN ? AND day = ?"
ALERTS_OPEN = "SELECT message FROM alerts_open WHERE store_id IN ?"
ALERT_LIFE = "SELECT message FROM alert_life WHERE alert_id = ?"
BASELINE = (
    "SELECT first_day, made_at, days FROM baseline_snapshot"
    " WHERE series = 'nightly' AND first_day <= ? LIMIT 1"
)

# Of a UTC day of one store the asked span is read: a store's days begin at its own midnight.
_FROM_DAY = "FROM raw_pos_transaction_byday WHERE year_day = ? AND operation_id = ?"
_HEAD = "event_id, source_offset, happened_at"
RECEIPT_HEADS = f"SELECT {_HEAD} {_FROM_DAY} AND happened_at >= ? AND happened_at < ? LIMIT ?"
RECEIPT_VOIDS = f"SELECT {_HEAD} {_FROM_DAY} AND kind = 'void' LIMIT ? ALLOW FILTERING"
RECEIPTS = (
    f"SELECT event_id, source_offset, kind, currency, transactions {_FROM_DAY}"
    " AND happened_at >= ? AND happened_at <= ?"
)


def speed_statement(family: Family) -> str:
    """The speed rows of one store on some days: key, events, parts, then epoch."""
    where = "store_id = ? AND day IN ?"
    return f"SELECT {_columns(family)}, epoch FROM {family.speed_table} WHERE {where}"


def batch_statement(family: Family) -> str:
    """All versions of the batch rows of one store on some days.

    The generation comes first, and the excluded parts after epoch.
    """
    excluded = ", ".join(family.exclusion_columns)
    return (
        f"SELECT generation, {_columns(family)}, epoch, {excluded}"
        f" FROM {family.batch_table} WHERE store_id = ? AND day IN ?"
    )


def probe_queries() -> Iterator[tuple[str, tuple[object, ...]]]:
    """A read of each table that answers come from, but the pointers, with values of no row."""
    absent, day = "-", date(1970, 1, 1)
    yield COVERINGS, (absent, [day])
    yield MASTER_UNTIL, (absent, [day])
    yield SWEPT, (absent, [day])
    yield HISTORY_BEGIN, ()
    yield MASTER_CURRENT, (absent,)
    yield FINDINGS, (absent, [day], absent)
    yield ANSWERED_SPANS, (absent, absent, [day])
    yield GAPS, ([absent],)
    yield SPEED_UNTIL, (absent,)
    yield LATE_RECORDS, (absent, datetime.now(UTC))
    yield STORE_ACTIVITY, (absent, absent)
    yield AXIS_VALUES, (absent, absent, [absent], day, day, 1)
    yield RECEIPT_VOIDS, (absent, absent, 1)
    yield ALERTS_RAISED, ([absent], day)
    yield ALERTS_OPEN, ([absent],)
    yield ALERT_LIFE, (absent,)
    yield BASELINE, (day,)
    for family in FAMILIES.values():
        yield speed_statement(family), (absent, [day])
        yield batch_statement(family), (absent, [day])


def _columns(family: Family) -> str:
    # Quoted, for `entries` is a reserved word of CQL.
    return ", ".join(f'"{name}"' for name in (*family.row_key, "events", *family.part_names))


# First and last UTC day, both inclusive.
DayRange: TypeAlias = tuple[date, date]
# First offset not yet in the master dataset, by UTC day of the event and partition.
UntilByDay: TypeAlias = Mapping[tuple[date, int], int]
# By UTC day and generation.
AnsweredSpans: TypeAlias = Mapping[tuple[date, int], AnsweredSpan]


class ViewRow(NamedTuple):
    """One row of a view with the window's totals; parts are in the order of the family."""

    window_start: datetime
    axes: Axes
    epoch: int
    events: int
    parts: tuple[Value, ...]
    # Speed rows have none.
    excluded: tuple[Value, ...] = ()


class Activity(NamedTuple):
    """First and last UTC day on which a store had events in any family."""

    store_id: str
    first_day: date
    last_day: date


class TillFinding(NamedTuple):
    """A till of the asked store, its conflicts of a day, and those that an operator accepted."""

    day: date
    till_id: str
    records: int
    conflicts: int
    accepted: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the day is not final because of it."""
        return self.conflicts > self.accepted


# The start of the window, and the axes.
ViewKey: TypeAlias = tuple[datetime, Axes]
# By UTC day.
VersionsByDay: TypeAlias = Mapping[date, Sequence["StoredVersion"]]
StoredVersion: TypeAlias = RowVersion[ViewKey, ViewRow]


def view_rows(family: Family, rows: Iterable[Sequence[Any]]) -> list[ViewRow]:
    """The total rows (dim '*') of the speed layer, columns by position as in its statement."""
    dim = 1 + len(family.axes)
    return [_parse_row(family, row) for row in rows if row[dim] == TOTAL_DIM]


def row_versions(family: Family, rows: Iterable[Sequence[Any]]) -> VersionsByDay:
    """The versions of the total rows, columns by position as in batch_statement()."""
    dim, events = 1 + len(family.axes), len(family.row_key)
    by_day: defaultdict[date, list[RowVersion[ViewKey, ViewRow]]] = defaultdict(list)
    for generation, *columns in rows:
        if columns[dim] == TOTAL_DIM:
            row = _parse_row(family, columns)
            found = None if columns[events] is None else row
            key = row.window_start, row.axes
            by_day[row.window_start.date()].append((key, generation, found))
    return by_day


def _parse_row(family: Family, row: Sequence[Any]) -> ViewRow:
    dim = 1 + len(family.axes)
    first, last = dim + 3, dim + 3 + len(family.parts)
    return ViewRow(
        assume_utc(row[0]),
        tuple(row[1:dim]),
        row[last],
        row[first - 1],
        family.from_columns(row[first:last]),
        family.from_columns(row[last + 1 :]) if len(row) > last + 1 else (),
    )
