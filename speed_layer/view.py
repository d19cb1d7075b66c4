"""The query of one view family: canonical records to view rows, in one stateful operator."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from speed_layer.sink.counter import CounterSink
from speed_layer.sink.rows import written
from tally.families import Family
from tally.frames import contributions, members_per_window, window_rows
from tally.settings import Settings

# The observed metrics of a micro-batch: what it has left out, and why.
LEFT_OUT = "left_out"
# The normaliser lets through minutes. One event of a year to come would close every window before it, for good.
MOST_AHEAD = timedelta(days=1)


def rows(records: DataFrame, family: Family, floor: datetime | None, lateness_seconds: int) -> DataFrame:
    """The view rows of each window that a micro-batch changed.

    In:  canonical records of a stream. Out: window_rows(). Left out and counted as observed metrics: `unreadable` records,
    `repeats` (exact copies, which add nothing to a window but to its state), and, left to batch, what lies `below_floor` or `ahead`
    of the clock by more than a day.
    """
    events = contributions(records, family)
    left_out = {
        "repeats": F.col("is_repeat"), "below_floor": F.col("happened_at") < F.lit(floor) if floor else F.lit(False),
        "ahead": F.col("happened_at") > F.col("committed_at") + F.lit(MOST_AHEAD),
    }  # fmt: skip
    counts = {"unreadable": ~F.col("is_readable")} | {name: F.col("is_readable") & reason for name, reason in left_out.items()}
    events = events.observe(LEFT_OUT, *(F.count_if(condition).alias(name) for name, condition in counts.items()))
    # Ahead of the watermark: a query without one would take anything, however old, in its first micro-batches.
    events = events.where(F.col("is_readable") & ~reduce(Column.__or__, left_out.values()))
    members = members_per_window(events.withWatermark("happened_at", f"{lateness_seconds} seconds"), family)
    # Here and not once a micro-batch: building these expressions takes Python a quarter of a second.
    return window_rows(members, family)


def start_view(records: DataFrame, family: Family, floor: datetime | None, settings: Settings) -> StreamingQuery:
    """The running query of one family, with its own checkpoint and watermark."""
    changed, take = with_sink(rows(records, family, floor, settings.lateness_seconds(family.name)), family, settings)

    def act(batch: DataFrame, number: int) -> None:
        # Exactly one full action: state is committed by the tasks that are read to their end, once.
        take(batch)

    query = changed.writeStream.queryName(family.name)
    query = query.outputMode("update").option("checkpointLocation", str(settings.checkpoint(family.name))).foreachBatch(act)
    return query.trigger(processingTime=f"{settings.trigger_seconds} seconds").start()


def with_sink(changed: DataFrame, family: Family, settings: Settings) -> tuple[DataFrame, Callable[[DataFrame], object]]:
    """The stream with its sink, and what reads a micro-batch of it: the register, or the counter that the tests show to be wrong."""
    if settings.sink_register == "counter":
        return changed, CounterSink(settings, family).add
    return written(changed, settings, family), DataFrame.collect
