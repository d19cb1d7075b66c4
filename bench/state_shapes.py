"""The shapes of streaming state that docs/adr/001-state-shape.md decides between."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tally.families import SALES
from tally.frames import contributions, members_per_window, window_rows

LATENESS = "7200 seconds"
WINDOW = "15 minutes"


@dataclass(frozen=True)
class Shape:
    """One candidate: how records become rows, and if it needs several stateful operators."""

    name: str
    rows: Callable[[DataFrame], DataFrame]
    operators: int = 1


def stream_of_events(records: DataFrame) -> DataFrame:
    """Contributions with the watermark that every shape has."""
    return contributions(records, SALES).withWatermark("happened_at", LATENESS)


def parsed_only(records: DataFrame) -> DataFrame:
    """A shape without state, as the upper bound: what reading and parsing alone take.

    Its rows are not totals.
    """
    nothing = F.lit(0).cast("bigint")
    events = stream_of_events(records).where(F.col("receipts") < 0)
    return events.select(
        "store_id",
        F.col("happened_at").alias("window_start"),
        nothing.alias("receipts"),
        nothing.alias("gross_minor"),
    )


def two_operators(records: DataFrame) -> DataFrame:
    """A: one state row per event (dropDuplicates), then totals in a second stateful operator."""
    events = stream_of_events(records).withColumn("window", F.window("happened_at", WINDOW))
    distinct = events.dropDuplicates(["store_id", "event_id", "window"])
    totals = distinct.groupBy("store_id", "window", *SALES.axes).agg(
        *(F.sum(part).alias(part) for part in SALES.parts)
    )
    return totals.select(
        "store_id", F.col("window.start").alias("window_start"), *SALES.axes, *SALES.parts
    )


def set_of_texts(records: DataFrame) -> DataFrame:
    """B: the set of a window's events, identity as text."""
    return window_rows(_collected(stream_of_events(records), F.collect_set), SALES)


def set_of_hashes(records: DataFrame) -> DataFrame:
    """B2: the same, identity as two 64-bit hashes (16 bytes) in place of the text."""
    hashes = (F.xxhash64("event_id"), F.xxhash64("event_id", F.lit(1)))
    sixteen_bytes = F.unhex(F.concat(*(F.lpad(F.hex(hashed), 16, "0") for hashed in hashes)))
    events = stream_of_events(records).withColumn("event_id", sixteen_bytes.cast("string"))
    return window_rows(_collected(events, F.collect_set), SALES)


def list_of_texts(records: DataFrame) -> DataFrame:
    """B3: the list of a window's events, identity as text; the transforms that both layers use."""
    return window_rows(members_per_window(stream_of_events(records), SALES), SALES)


def _collected(events: DataFrame, collect: Callable[[Column], Column]) -> DataFrame:
    member = F.struct(
        "event_id", "offset", F.lit(False).alias("excluded"), *SALES.axes, *SALES.parts
    )
    return events.groupBy("store_id", F.window("happened_at", WINDOW).alias("window")).agg(
        collect(member).alias("members")
    )


SHAPES = (
    Shape("read and parse only", parsed_only, operators=0),
    Shape("A  dropDuplicates, then totals", two_operators, operators=2),
    Shape("B  set a window, text identity", set_of_texts),
    Shape("B2 set a window, hashed identity", set_of_hashes),
    Shape("B3 list a window", list_of_texts),
)
