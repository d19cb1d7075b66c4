"""The shapes of streaming state that docs/adr/001-state-shape.md compares."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from runtime.registry.sources import SALES
from tally.spark.frames import contributions, members_per_window, window_rows

LATENESS = "7200 seconds"
WINDOW = "15 minutes"


@dataclass(frozen=True)
class StateShape:
    """One candidate: how records become rows, and how many stateful operators it needs."""

    name: str
    rows: Callable[[DataFrame], DataFrame]
    operators: int = 1


def event_stream(records: DataFrame) -> DataFrame:
    """Contributions with the watermark that every shape uses.

    In:  canonical records of a stream.
    Out: as tally.spark.frames.contributions().
    """
    return contributions(records, SALES).withWatermark("happened_at", LATENESS)


def parse_only(records: DataFrame) -> DataFrame:
    """A shape without state, as the upper bound: it only reads and parses.

    Its rows are not totals.

    In:  canonical records of a stream.
    Out: store_id, window_start, receipts, gross_minor; no row, since no receipts are negative.
    """
    nothing = F.lit(0).cast("bigint")
    events = event_stream(records).where(F.col("receipts") < 0)
    return events.select(
        "store_id",
        F.col("happened_at").alias("window_start"),
        nothing.alias("receipts"),
        nothing.alias("gross_minor"),
    )


def two_operators(records: DataFrame) -> DataFrame:
    """A: one state row per event (dropDuplicates), then totals in a second stateful operator.

    In:  canonical records of a stream.
    Out: store_id, window_start, the axes and the sum of each part.
    """
    events = event_stream(records).withColumn("window", F.window("happened_at", WINDOW))
    # For two payloads it keeps the one that its task reads first, which may not be the first by
    # offset: one of the reasons against this shape.
    distinct = events.dropDuplicates(["store_id", "event_id", "window"])
    totals = distinct.groupBy("store_id", "window", *SALES.axes).agg(
        *(F.sum(part).alias(part) for part in SALES.part_names)
    )
    return totals.select(
        "store_id", F.col("window.start").alias("window_start"), *SALES.axes, *SALES.part_names
    )


def set_of_texts(records: DataFrame) -> DataFrame:
    """B: the set of a window's events, identity as text.

    In:  canonical records of a stream.
    Out: as tally.spark.frames.window_rows().
    """
    # A set is never smaller than the list: each member has its own offset, so no two are equal.
    return window_rows(_collect_members(event_stream(records), F.collect_set), SALES)


def set_of_hashes(records: DataFrame) -> DataFrame:
    """B2: the same set, with the identity as two 64-bit hashes (16 bytes) in place of the text.

    In:  canonical records of a stream.
    Out: as tally.spark.frames.window_rows().
    """
    hashes = (F.xxhash64("event_id"), F.xxhash64("event_id", F.lit(1)))
    sixteen_bytes = F.unhex(
        F.concat(
            *(F.lpad(F.hex(hashed), 16, "0") for hashed in hashes),
        )
    )
    events = event_stream(records).withColumn("event_id", sixteen_bytes.cast("string"))
    return window_rows(_collect_members(events, F.collect_set), SALES)


def list_of_texts(records: DataFrame) -> DataFrame:
    """B3: the list of a window's events, identity as text; both layers use these transforms.

    In:  canonical records of a stream.
    Out: as tally.spark.frames.window_rows().
    """
    return window_rows(members_per_window(event_stream(records), SALES), SALES)


def _collect_members(events: DataFrame, collect: Callable[[Column], Column]) -> DataFrame:
    member = F.struct(
        "event_id", "offset", F.lit(False).alias("excluded"), *SALES.axes, *SALES.part_names
    )
    return events.groupBy("store_id", F.window("happened_at", WINDOW).alias("window")).agg(
        collect(member).alias("members")
    )


SHAPES = (
    StateShape("read and parse only", parse_only, operators=0),
    StateShape("A  dropDuplicates, then totals", two_operators, operators=2),
    StateShape("B  set a window, text identity", set_of_texts),
    StateShape("B2 set a window, hashed identity", set_of_hashes),
    StateShape("B3 list a window", list_of_texts),
)
