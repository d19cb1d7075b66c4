"""The parts of tally/algebra/parts.py as folds in Spark columns, with the same values.

tests/contract/test_part_columns.py compares each with its Python counterpart.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from tally.algebra.level import Level
from tally.algebra.parts import (
    MAX_SUM,
    Count,
    Histogram,
    KeyedSpans,
    KeyedSum,
    Max,
    Min,
    Part,
    Sum,
    Uniques,
)
from tally.time.windows import WINDOW_SECONDS

# Arguments: the accumulated value, the event, and the name of the field with its contribution.
Add = Callable[[Column, Column, str], Column]


@dataclass(frozen=True)
class Fold:
    """A fold over a window's events: value of none, next value, and what is stored of it."""

    start: Column
    add: Add
    end: Callable[[Column], Column] = lambda reached: reached


def build_fold(part: Part) -> Fold:
    """The part's fold. Raises KeyError for a class of part without a fold in FOLDS."""
    return FOLDS[type(part)]()


def _fold_sum() -> Fold:
    def add(total: Column, event: Column, name: str) -> Column:
        # Bounded by MAX_SUM: an overflow would end the query, and each of its restarts.
        bounded = F.greatest(total + event[name], F.lit(-MAX_SUM))
        return F.least(bounded, F.lit(MAX_SUM))

    return Fold(F.lit(0).cast("bigint"), add)


def _fold_count() -> Fold:
    def add(total: Column, event: Column, name: str) -> Column:
        return total + F.lit(1).cast("bigint")

    return Fold(F.lit(0).cast("bigint"), add)


def _fold_min() -> Fold:
    # least() and greatest() leave nulls out.
    start = F.lit(None).cast("bigint")
    return Fold(start, lambda so_far, event, name: F.least(so_far, event[name]))


def _fold_max() -> Fold:
    start = F.lit(None).cast("bigint")
    return Fold(start, lambda so_far, event, name: F.greatest(so_far, event[name]))


def _collect(end: Callable[[Column], Column]) -> Fold:
    """The fold that keeps the numbers of all events until the end."""

    def add(numbers: Column, event: Column, name: str) -> Column:
        return F.array_append(numbers, event[name])

    return Fold(F.array().cast("array<bigint>"), add, end)


def _fold_uniques() -> Fold:
    def smallest(digests: Column) -> Column:
        return F.slice(F.array_sort(F.array_distinct(digests)), 1, Uniques.SKETCH_SIZE)

    return _collect(smallest)


def _fold_histogram() -> Fold:
    def count(numbers: Column) -> Column:
        buckets = F.transform(numbers, _bucket)
        ends = F.array_sort(F.array_distinct(buckets))
        return F.transform(ends, lambda bucket: _count_bucket(buckets, bucket))

    return _collect(count)


def _bucket(number: Column) -> Column:
    size = F.greatest(number, F.lit(0).cast("bigint"))
    # bin() has a digit for each bit: a logarithm of doubles would be wrong at the borders.
    bits = F.length(F.bin(size))
    lost = F.greatest(bits - F.lit(Histogram.STEPS), F.lit(0))
    shifted = F.call_function("shiftright", size, lost)
    return F.call_function("shiftleft", shifted, lost)


def _count_bucket(buckets: Column, bucket: Column) -> Column:
    count = F.size(F.filter(buckets, lambda number: number == bucket)).cast("bigint")
    return F.struct(bucket.alias("lower_end"), count.alias("count"))


def _fold_keyed_sum() -> Fold:
    def sum_by_key(numbers: Column) -> Column:
        keys = F.array_sort(F.array_distinct(F.transform(numbers, _key)))
        sums = F.transform(keys, lambda key: _sum_key(numbers, key))
        return F.filter(sums, lambda entry: entry["sum"] != 0)

    return _collect(sum_by_key)


def _key(number: Column) -> Column:
    return F.call_function("shiftright", number, F.lit(KeyedSum.AMOUNT_BITS))


def _sum_key(numbers: Column, key: Column) -> Column:
    total = F.aggregate(
        F.filter(numbers, lambda number: _key(number) == key),
        F.lit(0).cast("bigint"),
        lambda total, number: total + number.bitwiseAND(KeyedSum.MAX_AMOUNT),
    )
    return F.struct(key.alias("key"), total.alias("sum"))


def _fold_keyed_spans() -> Fold:
    empty = F.array().cast("array<struct<key: bigint, first: bigint, end: bigint>>")

    def add(spans: Column, event: Column, name: str) -> Column:
        since_1970 = F.floor(event["at"] / F.lit(1000))
        second = F.pmod(since_1970, F.lit(WINDOW_SECONDS)).cast("bigint")
        end = second + event[name].bitwiseAND(KeyedSum.MAX_AMOUNT)
        span = F.struct(
            _key(event[name]).alias("key"),
            second.alias("first"),
            F.least(end, F.lit(WINDOW_SECONDS).cast("bigint")).alias("end"),
        )
        return F.array_append(spans, span)

    return Fold(empty, add, lambda spans: _encode_spans(_merge_spans(F.array_sort(spans), empty)))


def _merge_spans(spans: Column, empty: Column) -> Column:
    """The spans, with those of one key that touch or overlap merged into one."""

    def join(joined: Column, span: Column) -> Column:
        last = F.element_at(joined, -1)
        longer = F.struct(
            last["key"].alias("key"),
            last["first"].alias("first"),
            F.greatest(last["end"], span["end"]).alias("end"),
        )
        is_of_key = (F.size(joined) > 0) & (last["key"] == span["key"])
        meets = is_of_key & (span["first"] <= last["end"])
        count = F.greatest(F.size(joined) - 1, F.lit(0))
        before = F.slice(joined, F.lit(1), count)
        grown = F.array_append(joined, span)
        return F.when(meets, F.array_append(before, longer)).otherwise(grown)

    non_empty = F.filter(spans, lambda span: span["first"] < span["end"])
    return F.aggregate(non_empty, empty, join)


def _encode_spans(spans: Column) -> Column:
    def encode(span: Column) -> Column:
        first = F.call_function("shiftleft", span["first"], F.lit(KeyedSum.AMOUNT_BITS))
        number = first + span["end"] - span["first"]
        return F.struct(span["key"].alias("key"), number.alias("span"))

    return F.transform(spans, encode)


def _fold_level() -> Fold:
    empty = F.array().cast("array<struct<at: bigint, is_movement: boolean, brought: bigint>>")

    def add(events: Column, event: Column, name: str) -> Column:
        is_movement = event[name].bitwiseAND(1) == F.lit(1)
        entry = F.struct(
            event["at"].alias("at"),
            is_movement.alias("is_movement"),
            event[name].alias("brought"),
        )
        return F.array_append(events, entry)

    return Fold(empty, add, lambda events: _drop_before_last_count(F.array_sort(events)))


def _drop_before_last_count(events: Column) -> Column:
    def place_after_count(entry: Column, place: Column) -> Column:
        return F.when(~entry["is_movement"], place + 1).otherwise(0)

    places = F.transform(events, place_after_count)
    last = F.greatest(F.array_max(places), F.lit(1))
    length = F.greatest(F.size(events), F.lit(1))
    tail = F.slice(events, F.coalesce(last, F.lit(1)), length)
    return F.transform(tail, lambda entry: F.struct(entry["at"], entry["brought"]))


# The type of each part's stored value, in Spark's DDL.
STORED_TYPES: dict[type[Part], str] = {
    **dict.fromkeys((Sum, Count, Min, Max), "bigint"),
    Uniques: "array<bigint>",
    Histogram: "array<struct<lower_end: bigint, count: bigint>>",
    KeyedSum: "array<struct<key: bigint, sum: bigint>>",
    KeyedSpans: "array<struct<key: bigint, span: bigint>>",
    Level: "array<struct<at: bigint, brought: bigint>>",
}
FOLDS: dict[type[Part], Callable[[], Fold]] = {
    Sum: _fold_sum,
    Count: _fold_count,
    Min: _fold_min,
    Max: _fold_max,
    Uniques: _fold_uniques,
    Histogram: _fold_histogram,
    KeyedSum: _fold_keyed_sum,
    KeyedSpans: _fold_keyed_spans,
    Level: _fold_level,
}
