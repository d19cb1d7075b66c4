"""The fate of every record of the master dataset: counted, duplicate, conflict or unreadable.

DataFrame in, DataFrame out.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from batch_layer.views.compute.chains import chain_verdicts
from tally.algebra.parts import Count, Part
from tally.events.identity import CONTENT, REVERSAL, SHARE
from tally.families.family import Family
from tally.spark.frames import contributions, members_per_window
from tally.time.windows import WINDOW

COUNTED, DUPLICATE, CONFLICT, UNREADABLE = "counted", "duplicate", "conflict", "unreadable"
# A counted record that takes back an event which has not arrived is also waiting.
WAITING = "waiting"
# Sums over all windows and stores can exceed 64 bits where no single window does, and Spark's ANSI
# arithmetic then fails at each try.
WIDE = "decimal(38,0)"
FATES = (COUNTED, DUPLICATE, CONFLICT, UNREADABLE)
_COLUMNS = (
    *("store_id", "event_id", "fingerprint", "happened_at"),
    *("event_date", "partition", "offset", "committed_at"),
)
_FIRST_COPY_COLUMNS = ("window_start", "event_date", "offset")
_WINDOW_MICROS = int(WINDOW.total_seconds() * 1e6)


def classify_records(master: DataFrame) -> DataFrame:
    """The fate of each record.

    The records of one day do not show whether an identity was seen before: those of some days need
    the records of others beside them that batch_layer.links has noted for these days. Example:
    receipts A and B of one store, A sent again, then again with other content in another window,
    then garbage:

        offset | event_id | fingerprint | window | fate       | elsewhere
        0      | A        | f1          | 10:00  | counted    | false
        1      | B        | g1          | 10:15  | counted    | false
        2      | A        | f1          | 10:00  | duplicate  | false
        3      | A        | f2          | 10:15  | conflict   | true: an event of 10:15, no value
        4      | null     | null        | null   | unreadable | false

    All shares of an interval have one fate, decided by the first interval with the same begin.

    In:  master records of one family: store_id, event_id, fingerprint, happened_at timestamp,
         event_date, partition, offset, committed_at timestamp.
    Out: one row per distinct (partition, offset): the same columns, window_start, fate, first_date
         (day of the first copy), elsewhere boolean (the first copy lies in another window, or is a
         conflict by its interval: counts in `events` here, not in the values), taken_back boolean
         (counted, but not in the values), reversed_by struct<offset, event_date> (what takes the
         event back), waiting boolean (it takes back an event that has not arrived).
    Rule: identity is (source, store_id, event_id); the first by offset is counted; the same
          fingerprint again is a duplicate. A record that the master holds without an event_id is
          unreadable. The last version of a receipt counts, and none if a void comes after it in the
          chain, in any order of arrival (tally/events/receipt_rules.py).
    """
    # A record is identified by its place in the log: the result does not depend on the master
    # holding each record once.
    records = master.select(*_COLUMNS).dropDuplicates(["partition", "offset"])
    verdicts = F.broadcast(chain_verdicts(master))
    judged = (
        _join_first_copies(records.withColumn("window_start", _window_start("happened_at")))
        .join(verdicts, on=["partition", "offset"], how="left")
        .fillna(False, subset=["is_void"])
        .withColumn("fate", _fate())
    )
    is_counted = F.col("fate") == COUNTED
    is_version = is_counted & ~F.col("is_void")
    is_taken = F.col("is_void") | F.col("beaten_by").isNotNull()
    is_elsewhere = ~F.col("window_start").eqNullSafe(F.col("first_window_start"))
    # The first interval of that begin lacks this share: no copy of it counts.
    is_refused = _is_first() & (F.col("fate") == CONFLICT)
    return judged.select(
        *_COLUMNS,
        "window_start",
        "fate",
        F.col("first_event_date").alias("first_date"),
        (is_elsewhere | is_refused).alias("elsewhere"),
        F.when(is_version, F.col("beaten_by")).alias("reversed_by"),
        (is_counted & is_taken).alias("taken_back"),
        (is_counted & F.col("is_void") & ~F.col("has_receipt")).alias(WAITING),
    )


def _is_first() -> Column:
    return F.col("offset") == F.col("first_offset")


def _fate() -> Column:
    is_again = _has_same_content("fingerprint", "first_fingerprint")
    # A receipt is taken back once, however many voids say so.
    is_void = F.coalesce(F.col("event_id").startswith(REVERSAL), F.lit(False))
    return (
        F.when(F.col("event_id").isNull(), UNREADABLE)
        .when(is_again & _is_first(), COUNTED)
        .when(is_again | is_void, DUPLICATE)
        .otherwise(CONFLICT)
    )


def _has_same_content(left: str, right: str) -> Column:
    """Whether two fingerprint columns are of one content, as content_fingerprint() defines it."""
    whole = F.substring_index(left, CONTENT, 1) == F.substring_index(right, CONTENT, 1)
    have_content = F.col(left).contains(CONTENT) & F.col(right).contains(CONTENT)
    content = F.substring_index(left, CONTENT, -1) == F.substring_index(right, CONTENT, -1)
    return whole | (have_content & content)


def _join_first_copies(records: DataFrame) -> DataFrame:
    """Each record beside the values of the first copy of its identity.

    In:  _COLUMNS and window_start of all days, or of some and what is linked to them.
    Out: the same; first_fingerprint (for a share that of the first interval of its begin);
         first_window_start, first_event_date, first_offset.
    """
    # Each unreadable record is an identity of its own: otherwise one task would sort all of them.
    number = F.when(F.col("event_id").isNull(), F.col("offset"))
    # Both windows contain the interval, so that the second needs no further shuffle.
    of_interval = Window.partitionBy("store_id", "interval", number).orderBy("offset")
    copies = Window.partitionBy("store_id", "interval", number, "event_id").orderBy("offset")
    return records.withColumn("interval", _interval()).select(
        "*",
        F.first("fingerprint").over(of_interval).alias("first_fingerprint"),
        *(F.first(name).over(copies).alias(f"first_{name}") for name in _FIRST_COPY_COLUMNS),
    )


def _interval() -> Column:
    """The identity of a share's interval; any other event's own identity."""
    event_id = F.col("event_id")
    # Hardly any event_id ends with a one-digit number: the others skip the regular expression.
    may_be_share = F.substring(event_id, -2, 1) == ":"
    return F.when(may_be_share, F.regexp_replace(event_id, SHARE, "$1")).otherwise(event_id)


def _window_start(instant: str) -> Column:
    # window() is not used here: it drops the rows without an instant.
    micros = F.unix_micros(instant)
    return F.timestamp_micros(micros - F.pmod(micros, F.lit(_WINDOW_MICROS)))


def window_members(master: DataFrame, fates: DataFrame, family: Family) -> DataFrame:
    """The result of tally.spark.frames.members_per_window() for the given records.

    Events whose first copy lies elsewhere, and taken-back events together with those that take them
    back, are marked excluded. An event that waits for the one it takes back adds nothing anywhere.

    In:  master records (the wanted days) with value, partition, offset; classify_records() of all
         days.
    Out: as members_per_window(): one row per (store_id, window) with its members.
    """
    excluded = fates.where("elsewhere OR taken_back").select(
        "partition", "offset", WAITING, F.lit(True).alias("excluded")
    )
    events = contributions(readable_records(master), family)
    # Conflicts and voids are few: the join must not shuffle the records.
    marked = events.join(F.broadcast(excluded), on=["partition", "offset"], how="left")
    marked = marked.fillna(False, subset=["excluded", WAITING])
    # A waiting event takes nothing off the speed layer's row: that may know the receipt by now.
    nothing = F.when(F.col(WAITING), F.lit(0).cast("bigint"))
    parts = {name: nothing.otherwise(F.col(name)) for name in family.part_names}
    return members_per_window(marked.withColumns(parts), family)


def select_unreported(fates: DataFrame, pinned: DataFrame) -> DataFrame:
    """Records that are not counted and that no published generation of their day includes.

    No dead letter has been sent for them yet.

    In:  classify_records(); pinned: event_date, partition, pinned (first offset that the day's
         generation does not include).
    Out: partition, offset, fate.
    """
    # Each is reported once: otherwise every hourly rebuild of a day would send its conflicts again,
    # into a topic of limited size.
    uncounted = fates.where(F.col("fate").isin(CONFLICT, UNREADABLE))
    known = uncounted.join(F.broadcast(pinned), on=["event_date", "partition"], how="left")
    # A day that was never published includes nothing: all of it is unreported.
    is_unreported = F.col("offset") >= F.coalesce("pinned", F.lit(0))
    return known.where(is_unreported).select("partition", "offset", "fate")


def control_totals(master: DataFrame, fates: DataFrame, family: Family) -> DataFrame:
    """Expected sums of each window, computed from the records without members and sets.

    This is an independent computation of the same numbers.

    In:  as window_members(), but the fates of the wanted days alone.
    Out: store_id, window_start bigint (milliseconds since 1970), events, the parts that are sums
         (decimal: the sum of all windows cannot overflow).
    """
    window = F.unix_millis("window_start").alias("window_start")
    readable = fates.where(F.col("fate") != UNREADABLE).groupBy("store_id", window)
    considered = readable.agg(F.countDistinct("event_id").alias("events"))
    is_counted = (F.col("fate") == COUNTED) & ~F.col("taken_back")
    counted = fates.where(is_counted).select("partition", "offset", window)
    # Two master rows with the same coordinates are one record.
    once = contributions(readable_records(master), family).dropDuplicates(["partition", "offset"])
    parts = once.join(counted, on=["partition", "offset"]).groupBy("store_id", "window_start")
    totals = [_total(part) for part in family.parts if part.name in family.sums]
    # This extra aggregate is unused: a family may have no sums, and agg() needs at least one.
    first_copies = F.count(F.lit(1)).alias("first_copies")
    sums = parts.agg(first_copies, *totals)
    nothing = F.lit(0).cast(WIDE)
    rows = considered.join(sums, on=["store_id", "window_start"], how="left")
    return rows.select(
        "store_id",
        "window_start",
        F.col("events").cast(WIDE).alias("events"),
        *(F.coalesce(part, nothing).alias(part) for part in family.sums),
    )


def _total(part: Part) -> Column:
    brought = F.lit(1) if isinstance(part, Count) else F.col(part.name)
    return F.sum(brought.cast(WIDE)).alias(part.name)


def readable_records(master: DataFrame) -> DataFrame:
    """The records that have an identity.

    In:  master records.
    Out: value, partition, offset.
    """
    return master.where("event_id IS NOT NULL").select("value", "partition", "offset")
