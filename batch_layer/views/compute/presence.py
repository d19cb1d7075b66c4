"""Rebuild of a family that is read from presences: whole key periods of stores, once over.

The rows of a period are a function of all its sightings, on all the days that they span, so that a
visit is counted in one window across the border of two days. Nothing is written for a period that
is still running; its windows are left to the speed layer.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from batch_layer.views.compute.classification import UNREADABLE, WIDE, readable_records
from runtime.spark.arrow import to_rows
from tally.algebra.parts import Part, Value
from tally.families.family import TOTAL_DIM, TOTAL_DIM_VALUE, Family
from tally.families.generation import AnsweredSpan
from tally.people.heard import MAC_CLASSES, NEVER
from tally.people.presence import RowKey, period_rows
from tally.people.visits import (
    MINUTE_SECONDS,
    WINDOW_MINUTES,
    Device,
    MinuteSignals,
    parse_period_hours,
)
from tally.spark.frames import contributions, epoch_column
from tally.spark.part_columns import STORED_TYPES, build_fold
from tally.time.windows import EPOCH

_MINUTE_MILLIS = 1000 * MINUTE_SECONDS
_UNDER_WAY_MINUTES = 10
ArrowRow = tuple[Any, ...]


class DeviceMinute(NamedTuple):
    """A minute in which a device was heard; instants in minutes since 1970 (UTC).

    `rank` is the place of the address's class in CLASSES.
    """

    store: str
    period_start: int
    period_end: int
    opening: str
    device: str
    minute: int
    dbm: int
    rank: int


def device_minutes(master: DataFrame, fates: DataFrame, family: Family) -> DataFrame:
    """The device-minutes of all readable records.

    Conflicts are included: for a device in a second at an access point the strongest copy holds, as
    in the speed layer.

    In:  master records and classify_records() of days_around().
    Out: the fields of DeviceMinute: bigint, but store, opening and device string.
    """
    counted = fates.where(F.col("fate") != UNREADABLE).select("partition", "offset")
    # A record that the master holds twice changes nothing: the minutes are a set.
    heard = contributions(readable_records(master), family).join(
        counted, on=["partition", "offset"]
    )
    classes = F.array(*map(F.lit, MAC_CLASSES))
    rank = F.array_position(classes, F.col("mac_class"))
    minute = F.floor(F.unix_millis("happened_at") / F.lit(_MINUTE_MILLIS)).cast("bigint")
    period = (F.col("store_id").alias("store"), "period_start", "period_end")
    # The first record's opening hours hold for the whole period, as in the speed layer: a store's
    # records lie in one partition.
    first = F.min_by("open_at", "offset").alias("opening")
    opening = heard.groupBy(*period).agg(first)
    device = F.col("device_hash").alias("device")
    minutes = heard.groupBy(*period, device, minute.alias("minute")).agg(
        F.max("rssi_dbm").alias("dbm"),
        (F.max(rank) - 1).alias("rank"),
    )
    return minutes.join(F.broadcast(opening), on=["store", "period_start", "period_end"])


def compute_period_rows(minutes: DataFrame, family: Family) -> DataFrame:
    """Compute the view rows of key periods that are over.

    In:  device_minutes() of whole periods.
    Out: store_id, window_start bigint (milliseconds since 1970), the axis mac_class, events bigint
         (device-minutes of the window, equal in all its rows), parts as tally/algebra/parts.py has
         them. Periods that overlap, where a store's zone or settings have changed, share one row.
    """
    parts = [f"`{part.name}` {STORED_TYPES[type(part)]}" for part in family.parts]
    head = "store_id string, window_start bigint, mac_class string, events bigint"
    shape = ", ".join((head, *parts))
    columns = T.StructType.fromDDL(shape)
    assert isinstance(columns, T.StructType)
    arrow = to_arrow_schema(columns)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        heard = (DeviceMinute(*row) for batch in batches for row in to_rows(batch))
        for store, of_store in groupby(heard, key=lambda minute: minute.store):
            rows = _rows(store, of_store, family)
            columns = [*zip(*rows, strict=True)] or [()] * len(arrow)
            arrays = [*map(pa.array, columns, arrow.types)]
            yield pa.RecordBatch.from_arrays(arrays, schema=arrow)

    # The number of tasks is explicit: Spark would make one task of so few bytes. All rows of a
    # store lie in one task.
    tasks = minutes.sparkSession.sparkContext.defaultParallelism
    ordered = (
        minutes.select(*DeviceMinute._fields)
        .repartition(tasks, "store")
        .sortWithinPartitions("store", "period_start", "period_end", "device", "minute")
    )
    return ordered.mapInArrow(read, shape)


def _rows(store: str, heard: Iterable[DeviceMinute], family: Family) -> Iterator[ArrowRow]:
    minutes = Counter[int]()
    held: dict[RowKey, list[Value]] = {}
    for _, grouped in groupby(heard, key=lambda minute: (minute.period_start, minute.period_end)):
        of_period = list(grouped)
        first = of_period[0]
        hours = parse_period_hours(first.opening, first.period_start, first.period_end)
        rules = family.visit_rules.rules_for(store, first.period_start)
        rows = list(period_rows(_group_by_device(of_period), family.parts, rules, hours))
        # Once for each window: all of its rows have the same count.
        minutes.update({row.key[0]: row.device_minutes for row in rows})
        for key, _, values in rows:
            if key in held:
                both = zip(family.parts, held[key], values, strict=True)
                values = [part.plus(left, right) for part, left, right in both]
            held[key] = values
    for (start, mac_class), totals in sorted(held.items()):
        at = start * _MINUTE_MILLIS
        yield (store, at, mac_class, minutes[start], *map(_arrow_value, totals))


def _arrow_value(value: Value) -> Any:
    """The value in the form that Arrow takes: a struct in a column is a tuple and not a list."""
    if not isinstance(value, list):
        return value
    return [tuple(entry) if isinstance(entry, list) else entry for entry in value]


def _group_by_device(heard: Iterable[DeviceMinute]) -> Iterator[tuple[Device, MinuteSignals]]:
    for device, minutes in groupby(heard, key=lambda minute: minute.device):
        of_device = list(minutes)
        mac_class = MAC_CLASSES[max(minute.rank for minute in of_device)]
        strongest = {minute.minute: minute.dbm for minute in of_device}
        yield Device(int(device, 16), mac_class), strongest


def total_rows(rows: DataFrame, family: Family) -> DataFrame:
    """Select the columns that are written for the rows of some days.

    In:  compute_period_rows().
    Out: as tally.spark.frames.window_rows(); nothing is ever excluded from a window here.
    """
    start = F.timestamp_millis("window_start")
    return rows.select(
        "store_id",
        F.to_date(start).alias("day"),
        start.alias("window_start"),
        *family.axes,
        F.lit(TOTAL_DIM).alias("dim"),
        F.lit(TOTAL_DIM_VALUE).alias("dim_value"),
        "events",
        *family.part_names,
        epoch_column(family, F.to_date(start)).alias("epoch"),
        *(_empty_part(part).alias(f"excluded_{part.name}") for part in family.parts),
    )


def _empty_part(part: Part) -> Column:
    fold = build_fold(part)
    return fold.end(fold.start)


def period_control_totals(minutes: DataFrame, rows: DataFrame, family: Family) -> DataFrame:
    """Expected sums of each window: its device-minutes from the records alone.

    Visits and passes have no second computation apart from the one that both layers share. For them
    this check only shows that they are stored as computed; the audit has an oracle.

    In:  device_minutes() and compute_period_rows() of the same periods.
    Out: as control_totals().
    """
    minute = F.col("minute")
    start = (minute - F.pmod(minute, F.lit(WINDOW_MINUTES))) * _MINUTE_MILLIS
    by_window = minutes.groupBy(F.col("store").alias("store_id"), start.alias("window_start"))
    heard = F.count(F.lit(1)).cast(WIDE)
    events = by_window.agg(heard.alias("events"))
    windows = rows.groupBy("store_id", "window_start")
    # This extra aggregate is unused: a family may have no sums, and agg() needs at least one.
    one = F.count(F.lit(1)).alias("rows")
    sums = windows.agg(one, *(_wide_sum(name) for name in family.sums))
    nothing = F.lit(0).cast(WIDE)
    return events.join(sums, on=["store_id", "window_start"], how="full").select(
        "store_id",
        "window_start",
        F.coalesce("events", nothing).alias("events"),
        *(F.coalesce(name, nothing).alias(name) for name in family.sums),
    )


def _wide_sum(part: str) -> Column:
    return F.sum(F.col(part).cast(WIDE)).alias(part)


def cutoff_minute(until: datetime) -> int:
    """The minute (since 1970) by which a key period must have ended to be over.

    `until`: everything that had arrived by this instant (UTC) is known. Sightings of a period's
    last minutes may still be under way then.
    """
    return int(until.timestamp()) // MINUTE_SECONDS - _UNDER_WAY_MINUTES


def spans_by_store(minutes: DataFrame, until: datetime) -> dict[str, list[AnsweredSpan]]:
    """The key periods that are over and have a record, ascending, by store.

    Consecutive periods are joined to one span; the part that a running period overlaps is left out.
    The spans follow from the records of each period alone, so an outage has the same spans in every
    run, independent of the days that the run reads.

    In:  device_minutes(); until: everything that had arrived by then is known.
    Out: no DataFrame: instants (UTC) from inclusive, to exclusive, of each store of the minutes.
    """
    settled = cutoff_minute(until)
    periods = minutes.select("store", "period_start", "period_end").distinct()
    by_store: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for store, start, end in sorted(periods.collect()):
        by_store[store].append((start, end))
    return {store: join_periods(of_store, settled) for store, of_store in by_store.items()}


def join_periods(periods: Sequence[tuple[int, int]], settled: int) -> list[AnsweredSpan]:
    """Join a store's key periods with records (minutes since 1970, ascending) to spans.

    `settled`: periods that end later than this minute are still running.
    """
    # Periods overlap where a store's zone, or how long a key is kept, has changed.
    runs_from = min((start for start, end in periods if end > settled), default=settled)
    joined: list[tuple[int, int]] = []
    for start, end in periods:
        end = min(end, runs_from)
        before = joined[-1] if joined else (start, NEVER)
        if start <= before[1]:
            joined[-1] = before[0], max(end, before[1])
        elif start < end:
            joined.append((start, end))
    minute = timedelta(minutes=1)
    return [(EPOCH + start * minute, EPOCH + end * minute) for start, end in joined]
