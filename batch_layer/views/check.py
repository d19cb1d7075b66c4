"""Whether Cassandra holds of a generation what the records say, window by window.

Read back and compared by the executors.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby, islice, zip_longest
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from batch_layer.views.held import HeldReader, HeldRow, StoreDay
from tally.families import Family
from tally.settings import Settings

SHOWN = 3
_PARTITIONS_AT_ONCE = 1_000
_DAY_MILLIS = 86_400_000

# Store and start in milliseconds since 1970; events and parts.
Window: TypeAlias = tuple[str, int]
Values: TypeAlias = tuple[int, ...]
# First and last day (since 1970).
Span: TypeAlias = tuple[int, int]


class Unequal(msgspec.Struct, array_like=True):
    """A window that differs.

    Of events and each part what Cassandra holds less what the records say, with its sign.
    """

    store: str
    start: int
    # Texts: the sum over the rows of a window may have more than 64 bits.
    balance: list[str]


class CheckedGeneration(msgspec.Struct, array_like=True):
    """What was seen of a generation.

    Windows compared, the first that differ, how many are not as they were served before; of each
    store, and by axis of each value in a store, the first and the last day.
    """

    windows: int = 0
    unequal: list[Unequal] = []
    changed: int = 0
    stores: dict[str, Span] = {}
    # By axis, then by store and value.
    axes: dict[str, dict[str, dict[str, Span]]] = {}

    def add(self, other: "CheckedGeneration") -> None:
        """The other one, of other windows, is part of this."""
        self.windows += other.windows
        self.changed += other.changed
        self.unequal = [*self.unequal, *other.unequal][:SHOWN]
        for store, span in other.stores.items():
            _widen(self.stores, store, span)
        for axis, of_stores in other.axes.items():
            for store, spans in of_stores.items():
                for value, span in spans.items():
                    self.saw(axis, store, value, span)

    def saw(self, axis: str, store: str, value: str, span: Span) -> None:
        """The store's events of these days name the value of the axis."""
        _widen(self.axes.setdefault(axis, {}).setdefault(store, {}), value, span)


def check_generation(
    expected: DataFrame,
    settings: Settings,
    family: Family,
    generation: int,
    earlier: Mapping[date, int],
) -> CheckedGeneration:
    """What the executors saw; windows that the generation changes are kept for the restatements.

    In:  expected: expected_windows(); earlier: generation that serves a day now; a day without one
         changes nothing.
    Out: counts, and first and last days (since 1970) of stores and of the values of axes.
    """
    days = {(day - date(1970, 1, 1)).days: number for day, number in earlier.items()}
    names = ("store_id", "window_start", "touched", "events", *family.sums)

    def check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = HeldReader(settings, family, generation, days)
        rows = (
            row
            for batch in batches
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
        by_day = (
            (day, list(some))
            for day, some in groupby(rows, key=lambda row: (row[0], row[1] // _DAY_MILLIS))
        )
        # Lots of whole days, never of rows: a window is compared with all of its rows.
        while some := list(islice(by_day, _PARTITIONS_AT_ONCE)):
            found = msgspec.msgpack.encode(_checked(some, reader, family))
            yield pa.RecordBatch.from_pydict(
                {"found": pa.array([found], pa.binary())},
            )

    # The number is given, else Spark would make one task of so few bytes; a day of a store lies in
    # one of them.
    tasks = expected.sparkSession.sparkContext.defaultParallelism
    ordered = (
        expected.select(*names)
        .repartition(tasks, "store_id")
        .sortWithinPartitions("store_id", "window_start")
    )
    whole = CheckedGeneration()
    for row in ordered.mapInArrow(check, "found binary").collect():
        whole.add(msgspec.msgpack.decode(row["found"], type=CheckedGeneration))
    return whole


def _checked(
    days: Sequence[tuple[tuple[str, int], Sequence[Any]]],
    reader: HeldReader,
    family: Family,
) -> CheckedGeneration:
    # A day without a record beyond what is served has the same rows as there: it need not be read
    # to be compared.
    held = reader.rows(
        [
            StoreDay(
                *day,
                any(row[2] for row in rows),
            )
            for day, rows in days
        ]
    )
    owed = {
        (row[0], row[1]): tuple(int(value) for value in row[3:]) for _, rows in days for row in rows
    }
    found = CheckedGeneration(
        windows=len(owed),
        unequal=unequal_windows(held, owed)[:SHOWN],
        changed=len({row.window for row in held if row.changed}),
    )
    for (store, day), _ in days:
        _widen(found.stores, store, (day, day))
    for row in held:
        for axis, value in zip(family.axes, row.axes, strict=True):
            found.saw(axis, row.store, value, (row.day, row.day))
    return found


def unequal_windows(held: Iterable[HeldRow], owed: Mapping[Window, Values]) -> list[Unequal]:
    """The windows in which both differ, ascending; a window that one of them lacks is 0 there."""
    there: dict[Window, list[HeldRow]] = defaultdict(list)
    for row in held:
        there[row.window].append(row)
    # Window by window: in a grand total a row in the wrong window or store makes no difference.
    unequal = []
    for window in sorted(there.keys() | owed.keys()):
        balance = [
            holds - says
            for holds, says in zip_longest(
                _sums(there.get(window, ())),
                owed.get(window, ()),
                fillvalue=0,
            )
        ]
        if any(balance):
            unequal.append(Unequal(*window, [f"{value:+}" for value in balance]))
    return unequal


def _sums(rows: Sequence[HeldRow]) -> Values:
    """Of the rows of a window: its events, which stand in each of them, and the parts' sums."""
    # Each row of a window carries the events of the whole window: they are no summands.
    return max((row.events for row in rows), default=0), *map(
        sum, zip(*(row.parts for row in rows), strict=True)
    )


def _widen(spans: dict[str, Span], key: str, span: Span) -> None:
    known = spans.get(key, span)
    spans[key] = min(known[0], span[0]), max(known[1], span[1])
