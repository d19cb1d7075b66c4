"""What becomes of each record, and what conflicts leave in the rows: first by offset counts, over all days."""

from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from batch_layer.views.fates import considered_events, counted_totals, ledger, record_fates, touched_days, window_members
from tally.families import SALES
from tally.frames import window_rows
from tests.canonical import Canonical, receipt

MASTER = (
    "store_id string, event_id string, fingerprint string, happened_at timestamp, event_date date, partition int, offset long, value string"
)
MONDAY, WEDNESDAY = date(2017, 3, 6), date(2017, 3, 8)


def at(day: date, hour: int, minute: int = 0) -> datetime:
    return datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)


FIRST = receipt("1", 1, at(MONDAY, 10), 100)
# The records of one store's partition, in the order of their offsets.
RECORDS = [
    FIRST,
    receipt("1", 2, at(MONDAY, 10, 5), 200),
    FIRST,
    receipt("1", 1, at(MONDAY, 10, 1), 111),
    receipt("1", 2, at(WEDNESDAY, 9), 222),
    receipt("1", 3, at(WEDNESDAY, 9, 1), 300),
    receipt("2", 1, at(MONDAY, 10), 100),
]


def master_row(offset: int, record: Canonical) -> tuple[Any, ...]:
    happened_at = datetime.fromisoformat(record.happened_at)
    value = msgspec.json.encode(record).decode()
    return (record.store_id, record.event_id, record.fingerprint, happened_at, happened_at.date(), 0, offset, value)


@pytest.fixture(scope="module")
def master(spark: SparkSession) -> DataFrame:
    """The records, in another order than their offsets, one of them twice."""
    rows = [master_row(offset, record) for offset, record in enumerate(RECORDS)]
    return spark.createDataFrame([*reversed(rows), rows[0]], MASTER).cache()


@pytest.fixture(scope="module")
def fates(master: DataFrame) -> DataFrame:
    return record_fates(master).cache()


def test_first_by_offset_is_counted_the_same_again_is_a_duplicate_another_payload_a_conflict(fates: DataFrame) -> None:
    found = {row["offset"]: (row["fate"], row["elsewhere"]) for row in fates.collect()}

    counted, conflict = ("counted", False), "conflict"
    assert found == {
        0: counted, 1: counted, 2: ("duplicate", False), 3: (conflict, False), 4: (conflict, True), 5: counted, 6: counted,
    }  # fmt: skip


def test_each_record_has_one_fate_in_the_ledger(fates: DataFrame) -> None:
    found = [row.asDict() for row in ledger(fates).collect()]

    assert found == [{"partition": 0, "committed": 7, "counted": 4, "duplicate": 1, "conflict": 2}]


def test_conflict_counts_as_event_in_its_own_window_and_its_values_are_excluded_there(master: DataFrame, fates: DataFrame) -> None:
    rows = window_rows(window_members(master.where("store_id = '1'"), fates, SALES), SALES)

    found = {
        (row["day"], row["events"], row["receipts"], row["gross_minor"], row["excluded_receipts"], row["excluded_gross_minor"])
        for row in rows.collect()
    }
    assert found == {(MONDAY, 2, 2, 300, 0, 0), (WEDNESDAY, 2, 1, 300, 1, 222)}


def test_rows_sum_to_what_is_counted_without_windows(master: DataFrame, fates: DataFrame) -> None:
    once = master.dropDuplicates(["partition", "offset"])

    assert counted_totals(once, fates, SALES).collect()[0]["gross_minor"] == 100 + 200 + 300 + 100
    assert considered_events(fates) == 5


def test_only_stores_with_a_record_beyond_the_pin_are_touched(spark: SparkSession, fates: DataFrame) -> None:
    pinned = spark.createDataFrame([(MONDAY, 0, 6), (WEDNESDAY, 0, 6)], "event_date date, partition int, pinned bigint")

    assert [tuple(row) for row in touched_days(fates, pinned).collect()] == [("2", MONDAY)]
