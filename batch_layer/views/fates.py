"""What became of every record of the master dataset: counted, duplicate or conflict. DataFrame in, DataFrame out."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tally.families import Family
from tally.frames import WINDOW, contributions, members_per_window

COUNTED, DUPLICATE, CONFLICT = "counted", "duplicate", "conflict"


def record_fates(master: DataFrame) -> DataFrame:
    """The fate of each record, over all days: a day's own records cannot tell whether an identity was seen before.

    In:  master records of one family: store_id, event_id, fingerprint, happened_at timestamp, event_date, partition, offset.
    Out: one row per distinct (partition, offset): the same columns, window_start, fate, first_date (day of the first copy),
         elsewhere boolean (the first copy lies in another window: counts in `events` here, not in the values).
    Rule: identity is (source, store_id, event_id); the first by offset is counted; the same fingerprint again is a duplicate.
    """
    columns = ("store_id", "event_id", "fingerprint", "happened_at", "event_date", "partition", "offset")
    records = master.select(*columns).dropDuplicates(["partition", "offset"])
    records = records.withColumn("window_start", F.window("happened_at", WINDOW)["start"])
    identity = Window.partitionBy("store_id", "event_id").orderBy("offset")
    firsts = {name: F.first(name).over(identity) for name in ("fingerprint", "window_start", "event_date", "offset")}
    is_first, is_same = F.col("offset") == firsts["offset"], F.col("fingerprint") == firsts["fingerprint"]
    fate = F.when(is_first, COUNTED).when(is_same, DUPLICATE).otherwise(CONFLICT)
    return records.select(
        *columns, "window_start", fate.alias("fate"), firsts["event_date"].alias("first_date"),
        (F.col("window_start") != firsts["window_start"]).alias("elsewhere"),
    )  # fmt: skip


def window_members(master: DataFrame, fates: DataFrame, family: Family) -> DataFrame:
    """tally.frames.members_per_window() of the given records, events whose first copy lies elsewhere marked excluded.

    In:  master records (the wanted days) with value, partition, offset; record_fates() of all days.
    """
    excluded = fates.where("elsewhere").select("partition", "offset", F.lit(True).alias("excluded"))
    events = contributions(master.select("value", "partition", "offset"), family)
    # Conflicts are few: the join must not move the records.
    marked = events.join(F.broadcast(excluded), on=["partition", "offset"], how="left").fillna(False, subset=["excluded"])
    return members_per_window(marked, family)


def touched_days(fates: DataFrame, pinned: DataFrame) -> DataFrame:
    """Days of stores of which the published generations lack a record: only there can a window have changed.

    In:  record_fates(); pinned: event_date, partition, pinned (first offset that the day's generation does not include).
    Out: store_id, day. Rows are a function of the records up to a pin, so where no record came none changes.
    """
    beyond = fates.join(F.broadcast(pinned), on=["event_date", "partition"], how="inner").where(F.col("offset") >= F.col("pinned"))
    return beyond.select("store_id", F.col("event_date").alias("day")).distinct()


def ledger(fates: DataFrame) -> DataFrame:
    """Out: one row per partition: committed, counted, duplicate, conflict (bigint)."""
    counts = [F.count_if(F.col("fate") == fate).alias(fate) for fate in (COUNTED, DUPLICATE, CONFLICT)]
    return fates.groupBy("partition").agg(F.count(F.lit(1)).alias("committed"), *counts)


def considered_events(fates: DataFrame) -> int:
    """Distinct (store, window, event) of the given records: what the windows' `events` must sum to."""
    return fates.select("store_id", "window_start", "event_id").distinct().count()


def counted_totals(master: DataFrame, fates: DataFrame, family: Family) -> DataFrame:
    """One row: the parts summed over counted records alone; another way to the sum of all view rows, for the check.

    In: as window_members().
    """
    counted = fates.where(F.col("fate") == COUNTED).select("partition", "offset")
    events = contributions(master.select("value", "partition", "offset"), family).join(counted, on=["partition", "offset"], how="left_semi")
    return events.agg(*(F.coalesce(F.sum(part), F.lit(0)).alias(part) for part in family.parts))
