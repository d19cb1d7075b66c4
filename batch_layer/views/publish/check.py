"""A check of a generation in Cassandra against the records, window by window, on the executors."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby, islice, zip_longest
from typing import NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from batch_layer.views.publish.stored_rows import (
    ServedVersions,
    StoreDay,
    StoredRows,
    days_since_1970,
    value_names,
)
from runtime.cassandra.day_spans import DaySpan
from runtime.connect import worker_session
from runtime.spark.arrow import to_rows
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.families.family import Family
from tally.families.versions import VersionChoice
from tally.time.instants import DAY_MILLIS, format_utc, from_millis

SHOWN_WINDOWS = 3
_PARTITIONS_AT_ONCE = 1_000


# Store and start in milliseconds since 1970; events and parts.
StoreStart: TypeAlias = tuple[str, int]
ExpectedValues: TypeAlias = tuple[int, ...]


class ExpectedRow(NamedTuple):
    """The expected values of one window, computed from the records.

    start: in milliseconds since 1970; values: events, then the sums of the parts.
    """

    store: str
    start: int
    values: ExpectedValues


class WrittenRow(NamedTuple):
    """A row that Cassandra holds; day in days and start in milliseconds since 1970.

    `parts` are those that are sums, in the family's order.
    """

    store: str
    day: int
    start: int
    axes: tuple[str, ...]
    events: int
    parts: tuple[int, ...]

    @property
    def window(self) -> StoreStart:
        """The row's store and start."""
        return self.store, self.start


class UnequalWindow(msgspec.Struct, array_like=True):
    """A window whose stored values differ from the records.

    balance: for events and each part the stored value minus the expected one, with its sign.
    """

    store: str
    start: int
    # The balance is text: the sum over the rows of a window may have more than 64 bits.
    balance: list[str]


class GenerationCheck(msgspec.Struct, array_like=True):
    """Result of checking a generation.

    windows: how many were compared; unequal: the first that differ; stores and axes: the first and
    last day of each store, and of each value of an axis in a store.
    """

    windows: int = 0
    unequal: list[UnequalWindow] = []
    stores: dict[str, DaySpan] = {}
    # The keys are the axis, then the store, then the value.
    axes: dict[str, dict[str, dict[str, DaySpan]]] = {}

    def add(self, other: "GenerationCheck") -> None:
        """Merge the result of other windows into this one."""
        self.windows += other.windows
        self.unequal = [*self.unequal, *other.unequal][:SHOWN_WINDOWS]
        for store, span in other.stores.items():
            _widen(self.stores, store, span)
        for axis, of_stores in other.axes.items():
            for store, spans in of_stores.items():
                for value, span in spans.items():
                    _widen(self.axis_values(axis, store), value, span)

    def axis_values(self, axis: str, store: str) -> dict[str, DaySpan]:
        """The first and last day of each value that the axis has in the store."""
        return self.axes.setdefault(axis, {}).setdefault(store, {})


class WrittenRowReader:
    """Reads the rows of stores and days in the chosen generations."""

    def __init__(self, stored: StoredRows, family: Family, choices: ServedVersions) -> None:
        self._stored, self._choices = stored, choices
        names = value_names(family)
        self._axes = slice(1, 1 + len(family.axes))
        self._events = names.index("events")
        self._sums = [names.index(name) for name in family.sums]

    def read_rows(self, days: Sequence[StoreDay]) -> list[WrittenRow]:
        """All rows of these store days."""
        return [
            WrittenRow(
                *store_day,
                start=key[0],
                axes=key[self._axes],
                events=values[self._events],
                parts=tuple(values[place] for place in self._sums),
            )
            for store_day, rows in self._stored.read(days, self._choices).items()
            for key, values in rows.items()
        ]


def refuse_unequal(found: Sequence[UnequalWindow], family: Family, token: int) -> None:
    """Raise TallyError if a window's stored values differ from the sums of the counted records."""
    if found:
        windows = "; ".join(_describe_window(window, family) for window in found)
        raise TallyError(
            f"rebuild {token} of {family.name}: rows differ from the records: {windows};"
            " nothing was published"
        )


def _describe_window(window: UnequalWindow, family: Family) -> str:
    balance = zip(("events", *family.sums), window.balance, strict=True)
    differences = ", ".join(f"{name} {value}" for name, value in balance)
    return f"store {window.store} {format_utc(from_millis(window.start))} has {differences}"


def check_generation(
    expected: DataFrame,
    settings: Settings,
    family: Family,
    served: Mapping[date, VersionChoice],
) -> GenerationCheck:
    """Check the rows of whole days on the executors, as they will be served.

    In:  expected: control_totals(); served: the rows that will serve each day.
    Out: counts, and first and last days (since 1970) of stores and of the values of axes.
    """
    choices = days_since_1970(served)
    names = ("store_id", "window_start", "events", *family.sums)

    def check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = WrittenRowReader(StoredRows(worker_session(settings), family), family, choices)
        owed = (
            ExpectedRow(store, start, tuple(map(int, values)))
            for batch in batches
            for store, start, *values in to_rows(batch)
        )
        grouped = groupby(owed, key=lambda row: (row.store, row.start // DAY_MILLIS))
        by_day = ((day, list(day_rows)) for day, day_rows in grouped)
        # Chunks of whole days, never of rows: a window is compared with all of its rows.
        while chunk := list(islice(by_day, _PARTITIONS_AT_ONCE)):
            found = msgspec.msgpack.encode(_check_store_days(chunk, reader, family))
            yield pa.RecordBatch.from_pydict({"found": [found]})

    # The number of tasks is explicit: Spark would make one task of so few bytes. All rows of a
    # store's day lie in one task.
    tasks = expected.sparkSession.sparkContext.defaultParallelism
    ordered = (
        expected.select(*names)
        .repartition(tasks, "store_id")
        .sortWithinPartitions("store_id", "window_start")
    )
    whole = GenerationCheck()
    for row in ordered.mapInArrow(check, "found binary").collect():
        whole.add(msgspec.msgpack.decode(row["found"], type=GenerationCheck))
    return whole


def _check_store_days(
    days: Sequence[tuple[StoreDay, Sequence[ExpectedRow]]],
    reader: WrittenRowReader,
    family: Family,
) -> GenerationCheck:
    written = reader.read_rows([store_day for store_day, _ in days])
    rows_owed = (row for _, rows in days for row in rows)
    owed = {(row.store, row.start): row.values for row in rows_owed}
    found = GenerationCheck(
        windows=len(owed),
        unequal=unequal_windows(written, owed)[:SHOWN_WINDOWS],
    )
    for (store, day), _ in days:
        _widen(found.stores, store, DaySpan(day, day))
    for row in written:
        span = DaySpan(row.day, row.day)
        for axis, value in zip(family.axes, row.axes, strict=True):
            _widen(found.axis_values(axis, row.store), value, span)
    return found


def unequal_windows(
    written: Iterable[WrittenRow], owed: Mapping[StoreStart, ExpectedValues]
) -> list[UnequalWindow]:
    """The windows in which both differ, ascending; a window that one side lacks counts as 0."""
    there: dict[StoreStart, list[WrittenRow]] = defaultdict(list)
    for row in written:
        there[row.window].append(row)
    # Windows are compared singly: a grand total hides a row in the wrong window or store.
    unequal = []
    for window in sorted(there.keys() | owed.keys()):
        held = _sums(there.get(window, ()))
        both = zip_longest(held, owed.get(window, ()), fillvalue=0)
        balance = [holds - says for holds, says in both]
        if any(balance):
            unequal.append(UnequalWindow(*window, [f"{value:+}" for value in balance]))
    return unequal


def _sums(rows: Sequence[WrittenRow]) -> ExpectedValues:
    """The events of a window and the sums of its parts, from the window's rows."""
    # Each row of a window carries the events of the whole window: they must not be added up.
    events = max((row.events for row in rows), default=0)
    parts = zip(*(row.parts for row in rows), strict=True)
    return events, *map(sum, parts)


def _widen(spans: dict[str, DaySpan], key: str, span: DaySpan) -> None:
    first, last = spans.get(key, span)
    spans[key] = DaySpan(min(first, span.first), max(last, span.last))
