"""The parts of tally/algebra/parts.py as folds in Spark columns, with the same values.

tests/contract/test_part_columns.py compares each with its Python counterpart.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from tally.algebra.keyed_sum import KeyedSpans, KeyedSum
from tally.algebra.level import Level
from tally.algebra.parts import MAX_SUM, Count, Histogram, Max, Min, Part, Sum, Uniques
from tally.time.windows import WINDOW_SECONDS

# Arguments: the accumulated value, the event, and the name of the field with its contribution.
Add = Callable[[Column, Column, str], Column]


def _identity(reached: Column) -> Column:
    return reached


@dataclass(frozen=True)
class Fold:
    """A fold over the events of a window.

    `start` is the value for no events, `end` turns the accumulated value into the stored one.
    """

    start: Column
    add: Add
    end: Callable[[Column], Column] = _identity


def build_fold(part: Part) -> Fold:
    """The part's fold.

    Raises KeyError for a class of part without a fold in FOLDS.
    """
    return FOLDS[type(part)]()


def _fold_sum() -> Fold:
    def add(total: Column, event: Column, name: str) -> Column:
        # Bounded by MAX_SUM: an overflow would end the query, and each of its restarts.
        return F.least(
            F.greatest(total + event[name], F.lit(-MAX_SUM)),
            F.lit(MAX_SUM),
        )

    return Fold(F.lit(0).cast("bigint"), add)


def _fold_count() -> Fold:
    def add(total: Column, event: Column, name: str) -> Column:
        return total + F.lit(1).cast("bigint")

    return Fold(F.lit(0).cast("bigint"), add)


def _fold_min() -> Fold:
    # least() and greatest() leave nulls out.
    return Fold(
        F.lit(None).cast("bigint"),
        lambda so_far, event, name: F.least(so_far, event[name]),
    )


def _fold_max() -> Fold:
    return Fold(
        F.lit(None).cast("bigint"),
        lambda so_far, event, name: F.greatest(so_far, event[name]),
    )


def _fold_uniques() -> Fold:
    return Fold(
        F.array().cast("array<bigint>"),
        lambda digests, event, name: F.array_append(digests, event[name]),
        lambda digests: F.slice(
            F.array_sort(F.array_distinct(digests)),
            1,
            Uniques.SKETCH_SIZE,
        ),
    )


def _fold_histogram() -> Fold:
    return Fold(
        F.array().cast("array<bigint>"),
        lambda buckets, event, name: F.array_append(buckets, _bucket(event[name])),
        lambda buckets: F.transform(
            F.array_sort(F.array_distinct(buckets)), lambda bucket: _count_bucket(buckets, bucket)
        ),
    )


def _bucket(number: Column) -> Column:
    size = F.greatest(number, F.lit(0).cast("bigint"))
    # bin() has a digit for each bit: a logarithm of doubles would be wrong at the borders.
    lost = F.greatest(
        F.length(F.bin(size)) - F.lit(Histogram.STEPS),
        F.lit(0),
    )
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

    return Fold(
        F.array().cast("array<bigint>"),
        lambda numbers, event, name: F.array_append(numbers, event[name]),
        sum_by_key,
    )


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
        return F.when(meets, F.array_append(before, longer)).otherwise(
            F.array_append(joined, span),
        )

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

    last = F.greatest(
        F.array_max(F.transform(events, place_after_count)),
        F.lit(1),
    )
    tail = F.slice(
        events,
        F.coalesce(last, F.lit(1)),
        F.greatest(F.size(events), F.lit(1)),
    )
    return F.transform(tail, lambda entry: F.struct(entry["at"], entry["brought"]))


_NUMBER, _NUMBERS = "bigint", "array<bigint>"
# The type of each part's stored value, in Spark's DDL.
STORED_TYPES: dict[type[Part], str] = {
    Sum: _NUMBER,
    Count: _NUMBER,
    Min: _NUMBER,
    Max: _NUMBER,
    Uniques: _NUMBERS,
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
