"""The computation of a rebuild: the rows of some days of a family, and their expected sums.

A survey counts the fates of all records in one pass; further queries run only where it has found
something.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.views.compute.classification import (
    FATES,
    WAITING,
    control_totals,
    window_members,
)
from batch_layer.views.compute.pin import Pin
from batch_layer.views.compute.presence import (
    compute_period_rows,
    cutoff_minute,
    device_minutes,
    period_control_totals,
    spans_by_store,
    total_rows,
)
from tally.config.settings import Settings
from tally.families.family import Family
from tally.families.generation import AnsweredSpan, Generation
from tally.spark.frames import window_rows
from tally.time.day_clock import days_around


@dataclass(frozen=True)
class Survey:
    """The counts that one pass over the fates of all records yields, by day and partition."""

    lines: Sequence[Mapping[str, Any]]

    @classmethod
    def from_fates(cls, fates: DataFrame) -> Self:
        """Collect the survey of the fates by one Spark action.

        In:  classify_records() of all days.
        Out: a line for each day and partition: event_date, partition;
             how many are committed, counted, duplicate, conflict, unreadable, waiting.
        """
        its_fate = F.col("fate")
        # One pass over all records: each separate query, such as the number of conflicts, would be
        # another Spark job over them.
        counted = fates.groupBy("event_date", "partition").agg(
            F.count(F.lit(1)).alias("committed"),
            *(F.count_if(its_fate == fate).alias(fate) for fate in FATES),
            F.count_if(WAITING).alias(WAITING),
        )
        return cls([row.asDict() for row in counted.collect()])

    def count(self, *names: str, days: Collection[date] | None = None) -> int:
        """The number of records of the days, or of all days, that have these fates."""
        chosen = None if days is None else set(days)
        lines = [line for line in self.lines if chosen is None or line["event_date"] in chosen]
        return sum(line[name] for line in lines for name in names)

    def ledger(self, days: Collection[date]) -> list[Mapping[str, Any]]:
        """The lines of these days."""
        return [line for line in self.lines if line["event_date"] in days]


_PIN = pa.schema({"event_date": "date32", "partition": "int32", "pinned": "int64"})


@dataclass(frozen=True)
class PinnedRecords:
    """The records of one version that a rebuild reads, their fates, and what is served now."""

    pin: Pin
    master: DataFrame
    fates: DataFrame
    survey: Survey
    current: Mapping[date, Generation]
    # Store, partition and offset of the newest record of each store among those that the fates
    # depend on; None for all stores.
    newest: DataFrame | None = None

    def records_on_days(self, days: Sequence[date]) -> tuple[DataFrame, DataFrame]:
        """Master records and fates of the days.

        In:  days, ascending, one at least.
        Out: master records as read_records(), and classify_records(), of these days alone.
        """
        return select_days(self.master, days), select_days(self.fates, days)

    def pins(self, spark: SparkSession, days: Iterable[date] | None = None) -> DataFrame:
        """The offsets up to which days are served now.

        In:  days: by default all that are served.
        Out: event_date, partition, pinned: first offset that the day's generation does not include;
             0 for a day without one.
        """
        pinned = {day: pointer.pinned for day, pointer in self.current.items()}
        rows = [
            {"event_date": day, "partition": number, "pinned": offsets.get(number, 0)}
            for day in (pinned if days is None else days)
            for offsets in (pinned.get(day, {}),)
            for number in self.pin.until
        ]
        # Spark turns Arrow rows into a local relation; tuples would go through a worker.
        return spark.createDataFrame(pa.Table.from_pylist(rows, _PIN))


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
    if family.reading is None:
        chosen, fates = pinned.records_on_days(days)
        rows = window_rows(window_members(chosen, fates, family), family)
        return Computation(rows, control_totals(chosen, fates, family), {})
    master, fates = pinned.records_on_days(days_around(days, settings.key_days))
    heard = device_minutes(master, fates, family).persist()
    until = min(pinned.pin.through.values())
    over = heard.where(F.col("period_end") <= cutoff_minute(until))
    rows = _windows_on_days(compute_period_rows(over, family), days).persist()
    expected = _windows_on_days(period_control_totals(over, rows, family), days)
    return Computation(total_rows(rows, family), expected, spans_by_store(heard, until))


def select_days(records: DataFrame, days: Sequence[date]) -> DataFrame:
    """The records of these UTC days.

    In:  event_date date; days: ascending, one at least.
    Out: the same columns.
    """
    # Dates are text: the bridge to the JVM accepts no date before the year 1000.
    dates = [f"DATE'{day.isoformat()}'" for day in days]
    return records.where(
        f"event_date BETWEEN {dates[0]} AND {dates[-1]} AND event_date IN ({', '.join(dates)})"
    )


def _windows_on_days(rows: DataFrame, days: Sequence[date]) -> DataFrame:
    """The rows whose windows (milliseconds since 1970) lie on these UTC days."""
    dates = ", ".join(f"DATE'{day.isoformat()}'" for day in days)
    return rows.where(f"to_date(timestamp_millis(window_start)) IN ({dates})")
