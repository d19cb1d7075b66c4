"""Anything may lie on a canonical topic: what cannot be counted is told from what can, and ends
nothing."""

import json
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from runtime.registry.sources import FAMILIES, SALES
from tally.algebra.parts import MAX_PART, MAX_SUM
from tally.families.family import Family
from tally.spark.frames import canonical_records, contributions, members_per_window, window_rows
from tally.spark.record_columns import is_readable
from tests.integration.speed.query import NOON
from tests.support.sources.canonical import interval, receipt, sighting, stock_line

KAFKA = "topic string, value binary, partition int, offset bigint, timestamp timestamp"
GOOD: dict[str, Any] = json.loads(msgspec.json.encode(receipt("7", 1, NOON)))
GOOD_SIGHTING: dict[str, Any] = json.loads(msgspec.json.encode(sighting("7", "ap", NOON)))
GOOD_INTERVAL: dict[str, Any] = json.loads(msgspec.json.encode(interval("7", "door", NOON)))
GOOD_LINE: dict[str, Any] = json.loads(
    msgspec.json.encode(stock_line("7", "C-1", "count", NOON, m1=5))
)
GOOD_ONES = {
    "inventory": GOOD_LINE,
    "sales": GOOD,
    "traffic": GOOD_INTERVAL,
    "wifi": GOOD_SIGHTING,
}


def text(**changes: Any) -> bytes:
    """The good receipt with some fields changed, or without those that are None."""
    return json.dumps(
        {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    ).encode()


def with_field(field: str) -> bytes:
    """The good receipt with one more field, as its JSON text."""
    return text()[:-1] + b", " + field.encode() + b"}"


READABLE: dict[str, bytes] = {
    "as the normaliser writes it": text(),
    "unknown field": with_field('"extra": {"deep": [[[1]]], "x": 1.5}'),
    "first year": text(happened_at="0001-01-01T00:00:00.000Z"),
    "last year": text(happened_at="9999-12-31T23:59:59.999Z"),
    "parts at their bounds": text(gross_minor=MAX_PART, units_milli=-MAX_PART),
    "letters of many bytes": text(store_id="Zürich 東京 🧾"),
}
UNREADABLE: dict[str, bytes | None] = {
    "null": None,
    "empty": b"",
    "array": b"[]",
    "array of a good one": b"[" + text() + b"]",
    "text": b'"x"',
    "number": b"12",
    "no JSON": b"\x00\x01\x02",
    "cut off": text()[:-20],
    "not UTF-8": text(store_id="@").replace(b'"@"', b'"\xff\xfe"'),
    "6 MB of garbage": b"\xf0" * 6_000_000,
    "6 MB of letters": b'{"store_id": "' + b"a" * 6_000_000 + b'"}',
    "2,000 digits in an unknown field": with_field(f'"x": 1.{"3" * 2000}'),
    "60,000 letters of an unknown field's name": with_field(f'"{"n" * 60_000}": 1'),
    "5,000 deep": with_field(f'"x": {"[" * 5000}{"]" * 5000}'),
    "other fields": b'{"a": 1}',
    "no store": text(store_id=None),
    "no identity": text(event_id=None),
    "no fingerprint": text(fingerprint=None),
    "no currency": text(currency=None),
    "no instant": text(happened_at=None),
    "no part": text(voids_minor=None),
    "a part as text": text(gross_minor="12"),
    "a part with a fraction": text(gross_minor=1.5),
    "a part beyond its bound": text(gross_minor=MAX_PART + 1),
    "a part below its bound": text(units_milli=-MAX_PART - 1),
    "the least 64-bit number": text(gross_minor=-(2**63)),
    "more than 64 bits": text(gross_minor=2**64),
    "an instant that is none": text(happened_at="2017-02-30T12:00:00.000Z"),
    "a time of day": text(happened_at="12:00"),
    "a number as instant": text(happened_at=1_500_000_000),
    "year 0": text(happened_at="0000-12-31T23:59:59.999Z"),
    "year 10000": text(happened_at="+10000-01-01T00:00:00.000Z"),
    "year 10000 in UTC": text(happened_at="9999-12-31T23:59:59-10:00"),
    "a store's name longer than a table's key": text(store_id="s" * 70_000),
}


def records(spark: SparkSession, values: list[bytes | None]) -> DataFrame:
    """Canonical records of one partition with these values, as Kafka's source gives them."""
    return canonical_records(
        spark.createDataFrame(
            [("sales", value, 0, offset, NOON) for offset, value in enumerate(values)], KAFKA
        )
    )


def read(spark: SparkSession, values: list[bytes | None], family: Family = SALES) -> list[Row]:
    """What is read of each, in order."""
    return (
        contributions(records(spark, values), family)
        .orderBy("offset")
        .select("is_readable", "is_repeat")
        .collect()
    )


def test_what_cannot_be_counted_is_told_from_what_can(speed_spark: SparkSession) -> None:
    odd = {**READABLE, **UNREADABLE}

    found = dict(
        zip(odd, (row.is_readable for row in read(speed_spark, [*odd.values()])), strict=True)
    )

    assert found == {name: name in READABLE for name in odd}


def test_the_column_says_the_same_of_each_value(speed_spark: SparkSession) -> None:
    odd = {**READABLE, **UNREADABLE}

    told = (
        records(speed_spark, [*odd.values()])
        .select("offset", is_readable(F.col("value"), SALES).alias("is_readable"))
        .orderBy("offset")
    )

    assert dict(zip(odd, (row.is_readable for row in told.collect()), strict=True)) == {
        name: name in READABLE for name in odd
    }


@pytest.mark.parametrize(
    ("family", "good"),
    [(family, GOOD_ONES[name]) for name, family in FAMILIES.items()],
    ids=FAMILIES,
)
def test_record_of_each_family_is_read_and_that_of_another_is_not(
    speed_spark: SparkSession, family: Family, good: dict[str, Any]
) -> None:
    other = GOOD_INTERVAL if good is GOOD else GOOD

    told = [
        row.is_readable
        for row in read(speed_spark, [json.dumps(one).encode() for one in (good, other)], family)
    ]

    assert told == [True, False]


def test_mark_of_a_repeat_is_read_and_absent_means_none(speed_spark: SparkSession) -> None:
    found = read(speed_spark, [text(), text(repeat=True), text(repeat=False), text(repeat="yes")])

    assert [(row.is_readable, row.is_repeat) for row in found] == [
        (True, False),
        (True, True),
        (True, False),
        (True, False),
    ]


@pytest.mark.parametrize("sign", [1, -1])
def test_sum_beyond_64_bits_stays_at_its_bound_and_ends_nothing(
    speed_spark: SparkSession, sign: int
) -> None:
    member = speed_spark.range(4).selectExpr(
        "'7' AS store_id",
        "CAST(id AS STRING) AS event_id",
        "TIMESTAMP'2017-09-19 12:00:00Z' AS happened_at",
        "id AS offset",
        "'USD' AS currency",
        "1L AS receipts",
        f"CAST({sign * (MAX_SUM - 5)} AS BIGINT) DIV IF(id = 0, 1, {10**7}) AS gross_minor",
        "0L AS discounts_minor",
        "0L AS returns_minor",
        "0L AS voids_minor",
        "0L AS returned_receipts",
        "0L AS non_sales_minor",
        "0L AS rounding_minor",
        f"CAST({sign * MAX_PART} AS BIGINT) AS units_milli",
    )

    (row,) = window_rows(members_per_window(member, SALES), SALES).collect()

    assert (row.gross_minor, row.units_milli, row.events) == (
        sign * MAX_SUM,
        sign * 4 * MAX_PART,
        4,
    )
