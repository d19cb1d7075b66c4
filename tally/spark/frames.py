"""The DataFrame transforms that the speed layer and the batch layer share.

This module, tally/spark/record_columns.py and tally/spark/part_columns.py are the only ones of
`tally` that import PySpark.

Any change of what they compute needs a higher `epoch` in the sources' descriptors.
"""

from collections.abc import Callable, Sequence
from functools import cache, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tally.families.family import TOTAL_DIM, TOTAL_DIM_VALUE, Family
from tally.spark.part_columns import build_fold
from tally.spark.record_columns import (
    are_complete,
    field_names,
    is_utf8,
    number_columns,
    parse_record,
    parse_timestamp,
)
from tally.time.windows import WINDOW_SECONDS


def canonical_records(kafka: DataFrame) -> DataFrame:
    """Canonical records of some topics.

    In:  the Kafka source's columns (topic, value binary, partition, offset, timestamp).
    Out: topic string, value string (JSON), partition int, offset bigint, committed_at timestamp
         (UTC, the Kafka timestamp).
    """
    value = F.col("value").cast("string").alias("value")
    return kafka.select(
        "topic", value, "partition", "offset", F.col("timestamp").alias("committed_at")
    )


def contributions(records: DataFrame, *families: Family) -> DataFrame:
    """What each record adds to its window.

    In:  value string (canonical JSON, or anything else), partition int, offset bigint; optional
         topic, committed_at, crc. With several families the topic decides to which one a record
         belongs.
    Out: one row per record: store_id, event_id, happened_at timestamp (UTC), fingerprint; those of
         partition, offset and the optional columns that were there; the families' texts (axes) and
         numbers (parts, bigint: minor units, thousandths, counts), null where they are another
         family's; is_readable boolean: as is_readable(), without it the other columns mean nothing;
         is_repeat boolean: marked by the normaliser as an exact copy.
    """
    # inline(array(…)) and not the bare struct: otherwise the filter that window() adds would be
    # pushed down to the source and parse each record a second time (ADR 001).
    places = ("topic", "partition", "offset", "committed_at", "crc")
    placed = [name for name in places if name in records.columns]
    parsed = records.select(
        F.inline(F.array(parse_record("value", *families))),
        is_utf8("value").alias("is_utf8"),
        *placed,
    )
    complete = by_topic(families, lambda family: are_complete(family.fields))
    is_readable = F.col("is_utf8") & complete
    return parsed.select(
        "store_id",
        "event_id",
        parse_timestamp(F.col("happened_at")).alias("happened_at"),
        "fingerprint",
        *placed,
        *field_names("texts", families),
        *number_columns(families),
        is_readable.alias("is_readable"),
        F.coalesce("repeat", F.lit(False)).alias("is_repeat"),
    )


def by_topic(families: Sequence[Family], column: Callable[[Family], Column]) -> Column:
    """The column of the record's family; for a single family the topic is not looked at.

    In:  topic string, if there are several families; the columns that `column` reads.
    Out: the type of `column`, from the family with the topic; for an unknown topic from the last.
    """
    found = column(families[-1])
    for family in families[:-1]:
        is_own = F.col("topic") == family.topic
        found = F.when(is_own, column(family)).otherwise(found)
    return found


def members_per_window(events: DataFrame, family: Family) -> DataFrame:
    """The events of each window, in no order: everything that the window's rows are a function of.

    In:  contributions(), with or without a watermark on happened_at; optional boolean column
         `excluded` marks events that count in `events` but not in the values (default: none).
    Out: one row per (store_id, window): window struct<start, end> (UTC), members: array of
         struct<event_id, offset, excluded, axes, parts>, with `at` (milliseconds since 1970) where
         a part of the family is timed. Absent windows are absent, not empty.
    """
    # A list: every member has its own offset, so a set would only add hashing (ADR 001).
    excluded = F.col("excluded") if "excluded" in events.columns else F.lit(False)
    fields = (*family.axes, *family.part_names)
    # Only parts that need instants pay for them.
    is_timed = any(part.is_timed for part in family.parts)
    timed = (F.unix_millis("happened_at").alias("at"),) if is_timed else ()
    member = F.struct("event_id", "offset", excluded.alias("excluded"), *fields, *timed)
    window = F.window("happened_at", f"{WINDOW_SECONDS} seconds").alias("window")
    return events.groupBy("store_id", window).agg(F.collect_list(member).alias("members"))


def window_rows(members: DataFrame, family: Family) -> DataFrame:
    """The view rows of each window.

    A row has, for one value of the axes (e.g. currency), the sums over its distinct events, of each
    the copy with the lowest offset.

    In:  members_per_window().
    Out: store_id, day date, window_start timestamp (UTC), axes, dim, dim_value, events bigint
         (distinct events of the window, before exclusions and conflicts; equal in all rows of a
         window), parts and excluded_<part> (bigint, or as tally/algebra/parts.py has the part),
         epoch int.
    Rule: of two payloads of one identity the one with the lower offset counts.
    """
    ordered = members.select(
        "store_id",
        F.col("window.start").alias("window_start"),
        F.sort_array("members").alias("members"),
    )
    event_ids = F.array_distinct(F.transform("members", lambda member: member["event_id"]))
    counted = ordered.select(
        "store_id",
        "window_start",
        F.size(event_ids).cast("bigint").alias("events"),
        F.explode(_sums_by_axes(family)).alias("sums"),
    )
    rows = counted.where(F.col("sums.first_copies") > 0)
    return rows.select(
        "store_id",
        F.to_date("window_start").alias("day"),
        "window_start",
        *(F.col(f"sums.axes.{axis}").alias(axis) for axis in family.axes),
        F.lit(TOTAL_DIM).alias("dim"),
        F.lit(TOTAL_DIM_VALUE).alias("dim_value"),
        "events",
        *(f"sums.{part}" for part in family.part_names),
        epoch_column(family, F.to_date("window_start")).alias("epoch"),
        *(f"sums.{part}" for part in family.exclusion_columns),
    )


def epoch_column(family: Family, day: Column) -> Column:
    """The epoch of the rows of a day.

    In:  day date.
    Out: int.
    """
    epoch, more = F.lit(family.epoch), F.lit(0)
    for span in family.raised:
        is_higher = day.between(span.first, span.last) & (epoch < span.epoch)
        epoch = F.when(is_higher, span.epoch).otherwise(epoch)
    for revised in family.epochs.increases:
        # As text: the bridge to the JVM takes no date before the year 1000.
        since = F.lit(revised.since.isoformat()).cast("date")
        more = F.when(day >= since, revised.amount).otherwise(more)
    return epoch + more


@cache
def _sums_by_axes(family: Family) -> Column:
    """Array of struct<axes, first_copies, parts, excluded parts>, one for each axes of a member."""

    def pack_axes(member: Column) -> Column:
        # A family without axes still has one (constant) key, so each of its windows has one row.
        axes = (member[axis].alias(axis) for axis in family.axes)
        return F.struct(F.lit(0).alias("_"), *axes)

    all_axes = F.array_distinct(F.transform("members", pack_axes))
    return F.transform(all_axes, lambda axes: _sums(family, axes))


def _sums(family: Family, axes: Column) -> Column:
    """Fold over the members, sorted by (event_id, offset).

    Only the first copy of each event adds, to the value or to the excluded one. A sum stays within
    MAX_SUM: an overflow would end the query, and each of its restarts. With `axes` EUR:

    event_id  offset  currency  gross_minor  excluded    adds
    a              3  EUR               500  false       500 to gross_minor
    a              7  EUR               900  false       nothing: a copy, of any content
    b              4  EUR               200  true        200 to excluded_gross_minor
    c              5  USD               100  false       nothing: of other axes
    c              8  EUR               100  false       nothing: its first copy was of other axes

    The result is first_copies 2, gross_minor 500, excluded_gross_minor 200.
    """
    # The name of the sum, of the part, and its fold.
    folds = [
        (f"{prefix}{part.name}", part.name, build_fold(part))
        for prefix in ("", "excluded_")
        for part in family.parts
    ]
    zero, one = (F.lit(number).cast("bigint") for number in (0, 1))
    last = F.lit(None).cast("string").alias("last")
    starts = (fold.start.alias(name) for name, _, fold in folds)
    start = F.struct(last, zero.alias("first_copies"), *starts)

    def add(acc: Column, member: Column) -> Column:
        of_axes = (member[axis] == axes[axis] for axis in family.axes)
        same_axes = reduce(Column.__and__, of_axes, F.lit(True))
        first = ~acc["last"].eqNullSafe(member["event_id"]) & same_axes
        counted = acc["first_copies"] + F.when(first, one).otherwise(zero)
        # Excluded events add to their own columns, so that a reader can take them back elsewhere.
        adds = {True: first & member["excluded"], False: first & ~member["excluded"]}
        return F.struct(
            member["event_id"].alias("last"),
            counted.alias("first_copies"),
            *(
                F.when(adds[name != part], fold.add(acc[name], member, part))
                .otherwise(acc[name])
                .alias(name)
                for name, part, fold in folds
            ),
        )

    def result(acc: Column) -> Column:
        sums = {name: fold.end(acc[name]) for name, _, fold in folds}
        columns = (value.alias(name) for name, value in sums.items())
        return F.struct(axes.alias("axes"), acc["first_copies"].alias("first_copies"), *columns)

    return F.aggregate("members", start, add, result)
