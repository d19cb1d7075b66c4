"""Whether what Cassandra holds of a generation is what the records say, window by window."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from batch_layer.views.fates import WIDE
from tally.families import Family


def unequal_windows(held: DataFrame, expected: DataFrame, family: Family) -> DataFrame:
    """The windows in which both differ; a window that one of them lacks is 0 there.

    In:  held: held_rows(), one row per axes value; expected: expected_windows().
    Out: store_id, window_start (milliseconds since 1970), events and parts (held less expected).
    """
    names = ("events", *family.parts)
    once = [F.max(F.col("events").cast(WIDE)).alias("events"), *(F.sum(F.col(part).cast(WIDE)).alias(part) for part in family.parts)]
    there = held.groupBy("store_id", "window_start").agg(*once)
    owed = expected.select("store_id", "window_start", *(F.negate(name).cast(WIDE).alias(name) for name in names))
    both = there.select(*owed.columns).unionAll(owed).groupBy("store_id", "window_start")
    balance = both.agg(*(F.sum(name).alias(name) for name in names))
    is_unequal: Column = reduce(Column.__or__, (F.col(name) != 0 for name in names))
    return balance.where(is_unequal)
