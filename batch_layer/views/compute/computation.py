"""The computation of a rebuild: the rows of some days of a family, and their expected sums."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.views.compute.classification import control_totals, day_links, window_members
from batch_layer.views.compute.presence import (
    compute_period_rows,
    cutoff_minute,
    device_minutes,
    period_control_totals,
    spans_by_store,
    total_rows,
)
from batch_layer.views.compute.survey import Survey
from batch_layer.views.plan.coverage import Coverage
from batch_layer.views.plan.pin import Pin
from tally.config.settings import Settings
from tally.families.epochs import Epochs
from tally.families.family import Family
from tally.families.generation import AnsweredSpan, Generation
from tally.spark.frames import window_rows
from tally.time.key_periods import days_around

_PIN = pa.schema(
    [
        ("event_date", pa.date32()),
        ("partition", pa.int32()),
        ("pinned", pa.int64()),
    ]
)


@dataclass(frozen=True)
class PinnedRecords:
    """The family's records of one pinned version.

    With them come the fate of each record, the generations that serve now, and the coverage that
    may be claimed.
    """

    pin: Pin
    master: DataFrame
    fates: DataFrame
    survey: Survey
    current: Mapping[date, Generation]
    coverage: Coverage

    def records_on_days(self, days: Sequence[date]) -> tuple[DataFrame, DataFrame]:
        """Master records and fates of the days.

        In:  days, ascending, one at least.
        Out: master records as read_version(), and classify_records(), of these days alone.
        """
        return _records_on_days(self.master, days), _records_on_days(self.fates, days)

    def pins(self, spark: SparkSession, epochs: Epochs | None = None) -> DataFrame:
        """The offsets up to which the days are served now.

        In:  epochs: those of the definition; rows of another epoch do not belong to it.
        Out: event_date, partition, pinned: first offset that the day's generation does not include;
             0 for a generation of another epoch than the day's.
        """
        reached = [
            (day, number, _pin_offset(pointer, number, epochs))
            for day, pointer in self.current.items()
            for number in self.pin.until
        ]
        # Spark turns Arrow rows into a local relation; tuples would go through a worker.
        columns = zip(*reached, strict=True) if reached else ([], [], [])
        typed = zip(columns, _PIN.types, strict=True)
        arrays = [pa.array(column, kind) for column, kind in typed]
        return spark.createDataFrame(pa.table(arrays, schema=_PIN))


class Computation(NamedTuple):
    """The rows as window_rows(), and their expected sums as control_totals().

    `answered_spans`: the spans that the rows answer for, by store, of a family that is read from
    presences.
    """

    rows: DataFrame
    expected: DataFrame
    answered_spans: Mapping[str, Sequence[AnsweredSpan]]


def compute(
    spark: SparkSession,
    settings: Settings,
    family: Family,
    pinned: PinnedRecords,
    days: Sequence[date],
) -> Computation:
    """Compute the rows of the days (ascending, one at least) and the values to check them by."""
    # Rows of another definition epoch are all new rows.
    pins = pinned.pins(spark, family.epochs)
    if family.reading is None:
        chosen, fates = pinned.records_on_days(days)
        rows = window_rows(window_members(chosen, fates, family), family)
        return Computation(rows, control_totals(chosen, fates, pins, family), {})
    master, fates = pinned.records_on_days(days_around(days, settings.key_days))
    heard = device_minutes(master, fates, pins, family).persist()
    until = min(pinned.pin.through.values())
    over = heard.where(F.col("period_end") <= cutoff_minute(until))
    rows = _windows_on_days(compute_period_rows(over, family), days).persist()
    expected = _windows_on_days(period_control_totals(over, rows, family), days)
    return Computation(total_rows(rows, family), expected, spans_by_store(heard, until))


def read_day_links(pinned: PinnedRecords) -> Iterator[tuple[date, date]]:
    """Yield (day, other day): a change of the first day's rows may change those of the second.

    A conflict depends on its first copy, a receipt on its void.
    """
    if pinned.survey.count("elsewhere", "reversed"):
        both = day_links(pinned.fates).distinct()
        yield from ((row[0], row[1]) for row in both.toLocalIterator())


def period_days(
    settings: Settings, family: Family, pinned: PinnedRecords, days: Sequence[date]
) -> set[date]:
    """The known days around these that share a key period with them.

    Empty for a family whose windows depend on their own events alone.
    """
    if family.reading is None:
        return set()
    known = {*pinned.survey.until(), *pinned.current}
    return known.intersection(days_around(days, settings.key_days))


def _pin_offset(pointer: Generation, number: int, epochs: Epochs | None) -> int:
    is_known = epochs is None or epochs.for_day(pointer.day) == pointer.epoch
    return pointer.pinned.get(number, 0) if is_known else 0


def _records_on_days(records: DataFrame, days: Sequence[date]) -> DataFrame:
    # Dates are text: the bridge to the JVM accepts no date before the year 1000.
    dates = [f"DATE'{day.isoformat()}'" for day in days]
    return records.where(
        f"event_date BETWEEN {dates[0]} AND {dates[-1]} AND event_date IN ({', '.join(dates)})"
    )


def _windows_on_days(rows: DataFrame, days: Sequence[date]) -> DataFrame:
    """The rows whose windows (milliseconds since 1970) lie on these UTC days."""
    dates = ", ".join(f"DATE'{day.isoformat()}'" for day in days)
    return rows.where(f"to_date(timestamp_millis(window_start)) IN ({dates})")
