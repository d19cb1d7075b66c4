"""What became of every record of the master dataset: counted, duplicate, conflict or unreadable.

DataFrame in, DataFrame out.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tally.algebra.parts import Count, Part
from tally.families import Family
from tally.frames import contributions, members_per_window
from tally.windows import WINDOW

COUNTED, DUPLICATE, CONFLICT, UNREADABLE = "counted", "duplicate", "conflict", "unreadable"
# Sums over all windows and stores pass 64 bits where no window does, and Spark's ANSI arithmetic
# makes an error of that, at each try.
WIDE = "decimal(38,0)"
FATES = (COUNTED, DUPLICATE, CONFLICT, UNREADABLE)
_WINDOW_MICROS = int(WINDOW.total_seconds() * 1e6)


def record_fates(master: DataFrame) -> DataFrame:
    """The fate of each record, over all days.

    A day's own records cannot tell whether an identity was seen before. Receipts A and B of one
    store, A sent again, then again with other content in another window, then garbage:

        offset | event_id | fingerprint | window | fate       | elsewhere
        0      | A        | f1          | 10:00  | counted    | false
        1      | B        | g1          | 10:15  | counted    | false
        2      | A        | f1          | 10:00  | duplicate  | false
        3      | A        | f2          | 10:15  | conflict   | true: an event of 10:15, no value
        4      | null     | null        | null   | unreadable | false

    In:  master records of one family: store_id, event_id, fingerprint, happened_at timestamp,
         event_date, partition, offset, committed_at timestamp.
    Out: one row per distinct (partition, offset): the same columns, window_start, fate, first_date
         (day of the first copy), elsewhere boolean (the first copy lies in another window: counts
         in `events` here, not in the values).
    Rule: identity is (source, store_id, event_id); the first by offset is counted; the same
          fingerprint again is a duplicate. Unreadable is what the master holds without an event_id.
    """
    columns = (
        "store_id",
        "event_id",
        "fingerprint",
        "happened_at",
        "event_date",
        "partition",
        "offset",
        "committed_at",
    )
    # One record is what lies at one place of the log: by it the result does not hang on the
    # master's holding each once.
    records = (
        master.select(*columns)
        .dropDuplicates(["partition", "offset"])
        .withColumn("window_start", _window_start("happened_at"))
    )
    # Over the whole master: by the records of the rebuilt days alone a copy on another day would be
    # counted once more there.
    is_unreadable = F.col("event_id").isNull()
    # Each unreadable record is an identity of its own, else one task would sort a flood of them.
    identity = Window.partitionBy(
        "store_id", "event_id", F.when(is_unreadable, F.col("offset"))
    ).orderBy("offset")
    firsts = {
        name: F.first(name).over(identity)
        for name in ("fingerprint", "window_start", "event_date", "offset")
    }
    is_first = F.col("offset") == firsts["offset"]
    is_same = F.col("fingerprint") == firsts["fingerprint"]
    fate = (
        F.when(is_unreadable, UNREADABLE)
        .when(is_first, COUNTED)
        .when(is_same, DUPLICATE)
        .otherwise(CONFLICT)
    )
    return records.select(
        *columns,
        "window_start",
        fate.alias("fate"),
        firsts["event_date"].alias("first_date"),
        (~F.col("window_start").eqNullSafe(firsts["window_start"])).alias("elsewhere"),
    )


def _window_start(instant: str) -> Column:
    # Not window(): that drops the rows without an instant.
    micros = F.unix_micros(instant)
    return F.timestamp_micros(micros - F.pmod(micros, F.lit(_WINDOW_MICROS)))


def window_members(master: DataFrame, fates: DataFrame, family: Family) -> DataFrame:
    """tally.frames.members_per_window() of the given records.

    Events whose first copy lies elsewhere are marked excluded.

    In:  master records (the wanted days) with value, partition, offset; record_fates() of all days.
    Out: as members_per_window(): one row per (store_id, window) with its members.
    """
    excluded = fates.where("elsewhere").select(
        "partition",
        "offset",
        F.lit(True).alias("excluded"),
    )
    events = contributions(_readable(master), family)
    # Conflicts are few: the join must not move the records.
    marked = events.join(
        F.broadcast(excluded),
        on=["partition", "offset"],
        how="left",
    ).fillna(False, subset=["excluded"])
    return members_per_window(marked, family)


def untold(fates: DataFrame, pinned: DataFrame) -> DataFrame:
    """Records that are not counted and that no published generation of their day includes.

    So nobody has told of them.

    In:  record_fates(); pinned: event_date, partition, pinned (first offset that the day's
         generation does not include).
    Out: partition, offset, fate.
    """
    # Told once: each hour's rebuild of a day would else send its conflicts again, into a topic that
    # keeps them for good.
    uncounted = fates.where(F.col("fate").isin(CONFLICT, UNREADABLE))
    known = uncounted.join(F.broadcast(pinned), on=["event_date", "partition"], how="left")
    # A day never published includes nothing: all of it is untold.
    return known.where(
        F.col("offset") >= F.coalesce("pinned", F.lit(0)),
    ).select("partition", "offset", "fate")


def expected_windows(
    master: DataFrame, fates: DataFrame, pinned: DataFrame, family: Family
) -> DataFrame:
    """What each window must sum to, computed from the records without members and sets.

    Another way to the same numbers.

    In:  as window_members(), but the fates of the wanted days alone; pinned: as untold().
    Out: store_id, window_start bigint (milliseconds since 1970), events, the parts that are sums
         (decimal: the sum of all windows overflows nothing), touched boolean: the published
         generation of its day lacks one of its records. Rows are a function of the records up to a
         pin, so where no record came none changes.
    """
    window = F.unix_millis("window_start").alias("window_start")
    readable = fates.where(F.col("fate") != UNREADABLE).join(
        F.broadcast(pinned), on=["event_date", "partition"], how="left"
    )
    considered = readable.groupBy("store_id", window).agg(
        F.countDistinct("event_id").alias("events"),
        F.max(
            F.col("offset") >= F.coalesce("pinned", F.lit(0)),
        ).alias("touched"),
    )
    counted = fates.where(F.col("fate") == COUNTED).select("partition", "offset", window)
    # Coordinates that the master holds twice are one record.
    once = contributions(_readable(master), family).dropDuplicates(["partition", "offset"])
    parts = once.join(counted, on=["partition", "offset"]).groupBy("store_id", "window_start")
    totals = [_total(part) for part in family.parts if part.name in family.sums]
    # One more, which nobody asks for: a family may have no sum, and no aggregate is an error.
    first_copies = F.count(F.lit(1)).alias("first_copies")
    sums = parts.agg(*totals, first_copies)
    rows = considered.join(sums, on=["store_id", "window_start"], how="left")
    return rows.select(
        "store_id",
        "window_start",
        "touched",
        F.col("events").cast(WIDE).alias("events"),
        *(
            F.coalesce(
                part,
                F.lit(0).cast(WIDE),
            ).alias(part)
            for part in family.sums
        ),
    )


def _total(part: Part) -> Column:
    brought = F.lit(1) if isinstance(part, Count) else F.col(part.name)
    return F.sum(brought.cast(WIDE)).alias(part.name)


def _readable(master: DataFrame) -> DataFrame:
    return master.where("event_id IS NOT NULL").select("value", "partition", "offset")
