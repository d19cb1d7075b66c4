"""Whether Cassandra holds of a generation what the records say, window by window.

Read back and compared by the executors.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby, islice, zip_longest
from typing import NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from batch_layer.views.held import HeldReader, HeldRow, StoreDay
from runtime.arrow import rows_of
from runtime.day_spans import DaySpan
from tally.errors import TallyError
from tally.families import Family
from tally.instants import from_millis, instant_text
from tally.settings import Settings

SHOWN = 3
_PARTITIONS_AT_ONCE = 1_000
_DAY_MILLIS = 86_400_000
_BEGINNING = date(1970, 1, 1)

# Store and start in milliseconds since 1970; events and parts.
StoreStart: TypeAlias = tuple[str, int]
OwedValues: TypeAlias = tuple[int, ...]


class OwedRow(NamedTuple):
    """What the records say of one window.

    Start in milliseconds since 1970; touched: there are records beyond what is served now; events,
    then the sums of the parts.
    """

    store: str
    start: int
    touched: bool
    values: OwedValues

    @property
    def store_day(self) -> tuple[str, int]:
        """Its store, and its day in days since 1970."""
        return self.store, self.start // _DAY_MILLIS


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
    stores: dict[str, DaySpan] = {}
    # By axis, then by store and value.
    axes: dict[str, dict[str, dict[str, DaySpan]]] = {}

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

    def saw(self, axis: str, store: str, value: str, span: DaySpan) -> None:
        """The store's events of these days name the value of the axis."""
        of_store = self.axes.setdefault(axis, {}).setdefault(store, {})
        _widen(of_store, value, span)


def refuse_unequal(found: Sequence[Unequal], family: Family, token: int) -> None:
    """Raise TallyError unless Cassandra holds in every window what the counted records sum to.

    The sums are computed without members and sets.
    """
    if found:
        windows = "; ".join(
            f"store {one.store} {instant_text(from_millis(one.start))} has "
            + ", ".join(
                f"{name} {value}"
                for name, value in zip(("events", *family.sums), one.balance, strict=True)
            )
            for one in found
        )
        raise TallyError(
            f"rebuild {token} of {family.name}: rows differ from the records: {windows};"
            " nothing was published"
        )


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
    days = {(day - _BEGINNING).days: number for day, number in earlier.items()}
    names = ("store_id", "window_start", "touched", "events", *family.sums)

    def check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = HeldReader(settings, family, generation, days)
        owed = (
            OwedRow(store, start, touched, tuple(map(int, values)))
            for batch in batches
            for store, start, touched, *values in rows_of(batch)
        )
        grouped = groupby(owed, key=lambda row: row.store_day)
        by_day = ((day, list(some)) for day, some in grouped)
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
    days: Sequence[tuple[tuple[str, int], Sequence[OwedRow]]],
    reader: HeldReader,
    family: Family,
) -> CheckedGeneration:
    # A day without a record beyond what is served has the same rows as there: it need not be read
    # to be compared.
    asked = [_store_day(*day, rows) for day, rows in days]
    held = reader.rows(asked)
    rows_owed = (row for _, rows in days for row in rows)
    owed = {(row.store, row.start): row.values for row in rows_owed}
    found = CheckedGeneration(
        windows=len(owed),
        unequal=unequal_windows(held, owed)[:SHOWN],
        changed=len({row.window for row in held if row.changed}),
    )
    for (store, day), _ in days:
        _widen(found.stores, store, DaySpan(day, day))
    for row in held:
        for axis, value in zip(family.axes, row.axes, strict=True):
            found.saw(axis, row.store, value, DaySpan(row.day, row.day))
    return found


def _store_day(store: str, day: int, rows: Iterable[OwedRow]) -> StoreDay:
    return StoreDay(store, day, any(row.touched for row in rows))


def unequal_windows(
    held: Iterable[HeldRow], owed: Mapping[StoreStart, OwedValues]
) -> list[Unequal]:
    """The windows in which both differ, ascending; a window that one of them lacks is 0 there."""
    there: dict[StoreStart, list[HeldRow]] = defaultdict(list)
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


def _sums(rows: Sequence[HeldRow]) -> OwedValues:
    """Of the rows of a window: its events, which stand in each of them, and the parts' sums."""
    # Each row of a window carries the events of the whole window: they are no summands.
    return max((row.events for row in rows), default=0), *map(
        sum, zip(*(row.parts for row in rows), strict=True)
    )


def _widen(spans: dict[str, DaySpan], key: str, span: DaySpan) -> None:
    known = spans.get(key, span)
    spans[key] = DaySpan(
        min(known.first, span.first),
        max(known.last, span.last),
    )
