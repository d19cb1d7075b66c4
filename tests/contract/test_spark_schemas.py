"""Spark's schemas agree with the JSON Schema files, the CQL tables and the master's columns."""

import re
from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

from runtime.registry.sources import FAMILIES
from schemas.loader import event_schema, master_schema
from tally.families.epochs import EVER, DatedVisitRules, RaisedEpoch, StoreVisitRules
from tally.families.family import Family
from tally.people.visits import VisitRules
from tests.unit.schemas.cql import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KAFKA_SOURCE = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " timestampType int"
)
SPARK_TYPE_OF_CQL = {
    "text": "string",
    "date": "date",
    "timestamp": "timestamp",
    "bigint": "bigint",
    "int": "int",
    "frozen<list<bigint>>": "array<bigint>",
    "frozen<list<frozen<tuple<bigint, bigint>>>>": "array<struct<bigint,bigint>>",
}
SPARK_TYPE_OF_JSON = {"string": "string", "integer": "bigint"}
COUNTED = [family for family in FAMILIES.values() if family.reading is None]
READ = [family for family in FAMILIES.values() if family.reading is not None]
BY_FAMILY = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


@pytest.fixture
def kafka_records(spark: "SparkSession") -> "DataFrame":
    """No records, with the columns of Spark's Kafka source."""
    return spark.createDataFrame([], KAFKA_SOURCE)


@BY_FAMILY
def test_spark_reads_fields_of_the_event_schema_with_their_types(
    kafka_records: "DataFrame", family: Family
) -> None:
    from tally.spark.frames import canonical_records, contributions

    read = types_of(contributions(canonical_records(kafka_records), family))

    fields = event_schema(family.name)["properties"]
    placed = {
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "committed_at": "timestamp",
    }
    added = {**placed, "is_readable": "boolean", "is_repeat": "boolean"}
    # A field of a few texts says no more than which.
    kinds = {name: fields[name].get("type", "string") for name in read if name not in added}
    wire = {name: SPARK_TYPE_OF_JSON[kind] for name, kind in kinds.items()}
    assert read == {**wire, "happened_at": "timestamp", **added}


@pytest.mark.parametrize("family", COUNTED, ids=lambda one: one.name)
def test_spark_computes_the_columns_of_the_tables_with_their_types(
    kafka_records: "DataFrame", family: Family
) -> None:
    from tally.spark.frames import canonical_records, contributions, members_per_window, window_rows

    events = contributions(canonical_records(kafka_records), family)
    check_columns(window_rows(members_per_window(events, family), family), family)


@pytest.mark.parametrize("family", READ, ids=lambda one: one.name)
def test_spark_computes_the_columns_of_what_is_read_from_presences(
    spark: "SparkSession", family: Family
) -> None:
    from batch_layer.views.compute.presence import compute_period_rows, total_rows

    numbers = ("period_start", "period_end", "minute", "dbm", "rank")
    texts = ("store", "opening", "device")
    shape = ", ".join(
        (*(f"{name} bigint" for name in numbers), *(f"{name} string" for name in texts))
    )
    minutes = spark.createDataFrame([], shape)
    check_columns(total_rows(compute_period_rows(minutes, family), family), family)


def test_spark_tells_the_epoch_of_a_day_as_the_family_does(spark: "SparkSession") -> None:
    from pyspark.sql import functions as F

    from tally.spark.frames import epoch_column

    day = 1440
    dated = (DatedVisitRules(EVER, VisitRules(), 2), DatedVisitRules(3 * day, VisitRules(), 5))
    family = replace(
        FAMILIES["wifi"],
        raised=(RaisedEpoch(date(1970, 1, 2), date(1970, 1, 3), 90),),
        visit_rules=StoreVisitRules({"367": dated, "406": dated[:1]}),
    )
    days = [date(1970, 1, 1) + timedelta(days=number) for number in range(6)]
    texts = spark.createDataFrame([(one.isoformat(),) for one in days], "day string")

    found = texts.select("day", epoch_column(family, F.col("day").cast("date")).alias("epoch"))

    told = {row.day: row.epoch for row in found.collect()}
    assert told == {one.isoformat(): family.epochs.for_day(one) for one in days}
    assert len({*told.values()}) > 2


def check_columns(rows: "DataFrame", family: Family) -> None:
    # A tuple of Cassandra has no names for what is in it.
    computed = {name: re.sub(r"\w+:", "", kind) for name, kind in types_of(rows).items()}
    stored = {
        name: SPARK_TYPE_OF_CQL[kind]
        for name, kind in tables()[family.batch_table].columns.items()
        if name != "generation"
    }
    assert computed == stored
    assert set(tables()[family.speed_table].columns) == set(stored) - set(family.exclusion_columns)


def test_spark_writes_the_columns_of_the_master_with_their_types(
    kafka_records: "DataFrame",
) -> None:
    from batch_layer.master.table import master_records

    # The digest of the bytes goes into the note of the append.
    assert types_of(master_records(kafka_records).drop("sha256")) == {
        column["name"]: column["type"] for column in master_schema()["columns"]
    }


def types_of(frame: "DataFrame") -> dict[str, str]:
    """Column name to its Spark DDL type."""
    return dict(frame.dtypes)
