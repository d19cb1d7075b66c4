"""What becomes of each record, and what conflicts leave in the rows: first by offset counts,
over all days."""

from collections import Counter, defaultdict
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from batch_layer.views.compute.classification import (
    classify_records,
    control_totals,
    select_unreported,
    window_members,
)
from batch_layer.views.compute.computation import Survey
from batch_layer.views.publish.registers import conflicting_tills
from runtime.registry.sources import SALES
from tally.spark.frames import window_rows
from tests.support.sources.canonical import Canonical, receipt

MASTER = (
    "store_id string, event_id string, fingerprint string, happened_at timestamp, event_date date,"
    " partition int, offset long, value string, committed_at timestamp"
)
PINNED = "event_date date, partition int, pinned bigint"
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
    identity = record.store_id, record.event_id, record.fingerprint
    value = msgspec.json.encode(record).decode()
    return *identity, happened_at, happened_at.date(), 0, offset, value, happened_at


def millis(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)


@pytest.fixture(scope="module")
def master(spark: SparkSession) -> DataFrame:
    """The records, in another order than their offsets, one of them twice."""
    rows = [master_row(offset, record) for offset, record in enumerate(RECORDS)]
    return spark.createDataFrame([*reversed(rows), rows[0]], MASTER).cache()


@pytest.fixture(scope="module")
def fates(master: DataFrame) -> DataFrame:
    return classify_records(master).cache()


def test_first_by_offset_is_counted_the_same_again_is_a_duplicate_another_payload_a_conflict(
    fates: DataFrame,
) -> None:
    found = {row["offset"]: (row["fate"], row["elsewhere"]) for row in fates.collect()}

    counted, conflict = ("counted", False), "conflict"
    assert found == {
        0: counted,
        1: counted,
        2: ("duplicate", False),
        3: (conflict, False),
        4: (conflict, True),
        5: counted,
        6: counted,
    }


def test_one_of_two_digests_makes_a_copy_of_a_record(spark: SparkSession) -> None:
    """Records of before have the first alone."""
    prints = ["w1", "w1.c1", "w2.c1", "w2.c2", "w1"], ["w1.c1", "w2.c1", "w1", "w2", "w2.c2"]
    rows = [
        (*master_row(offset, receipt(str(store), 1, at(MONDAY, 10), 100))[:2], told)
        for store, of_store in enumerate(prints)
        for offset, told in enumerate(of_store)
    ]
    master = spark.createDataFrame(
        [
            (store, event, told, at(MONDAY, 10), MONDAY, 0, place, "{}", at(MONDAY, 10))
            for place, (store, event, told) in enumerate(rows)
        ],
        MASTER,
    )

    found = {row["offset"]: row["fate"] for row in classify_records(master).collect()}

    # The first of store 0 has no content to compare: its other writing is another content.
    first, second = [found[place] for place in range(5)], [found[place] for place in range(5, 10)]
    assert first == ["counted", "duplicate", "conflict", "conflict", "duplicate"]
    assert second == ["counted", "duplicate", "duplicate", "conflict", "conflict"]


def by_partition(survey: Survey) -> list[dict[str, int]]:
    """The survey's counts over all its days."""
    total: dict[int, Counter[str]] = defaultdict(Counter)
    for line in survey.lines:
        counts = {name: count for name, count in line.items() if isinstance(count, int)}
        total[counts.pop("partition")].update(counts)
    return [{"partition": number, **counts} for number, counts in sorted(total.items())]


def test_each_record_has_one_fate_in_the_ledger(fates: DataFrame) -> None:
    assert by_partition(Survey.from_fates(fates)) == [
        {
            "partition": 0,
            "committed": 7,
            "counted": 4,
            "duplicate": 1,
            "conflict": 2,
            "unreadable": 0,
            "waiting": 0,
        }
    ]


def test_conflict_counts_as_event_in_its_own_window_and_its_values_are_excluded_there(
    master: DataFrame, fates: DataFrame
) -> None:
    rows = window_rows(window_members(master.where("store_id = '1'"), fates, SALES), SALES)

    found = {
        (
            row["day"],
            row["events"],
            row["receipts"],
            row["gross_minor"],
            row["excluded_receipts"],
            row["excluded_gross_minor"],
        )
        for row in rows.collect()
    }
    assert found == {(MONDAY, 2, 2, 300, 0, 0), (WEDNESDAY, 2, 1, 300, 1, 222)}


def test_windows_sum_to_what_is_counted_also_when_coordinates_are_there_twice(
    spark: SparkSession, master: DataFrame, fates: DataFrame
) -> None:
    found = {
        (row["store_id"], row["window_start"]): (int(row["events"]), int(row["gross_minor"]))
        for row in control_totals(master, fates, SALES).collect()
    }

    monday, wednesday = millis(at(MONDAY, 10)), millis(at(WEDNESDAY, 9))
    assert found == {("1", monday): (2, 300), ("1", wednesday): (2, 300), ("2", monday): (1, 100)}


@pytest.fixture(scope="module")
def unreadable(spark: SparkSession) -> DataFrame:
    """As the master keeps what nobody can read: beside good records, a tombstone and text of no
    JSON."""
    good = [master_row(offset, record) for offset, record in enumerate([FIRST, FIRST])]
    bad = [
        (None, None, None, None, MONDAY, partition, offset, value, at(MONDAY, 0))
        for partition, offset, value in ((0, 2, None), (0, 3, "\ufffd{"), (1, 2, ""))
    ]
    return spark.createDataFrame([*good, *bad], MASTER).cache()


def test_unreadable_records_are_a_fate_of_their_own_and_in_no_window(
    spark: SparkSession, unreadable: DataFrame
) -> None:
    fates = classify_records(unreadable)

    survey = Survey.from_fates(fates)
    rows = window_rows(window_members(unreadable, fates, SALES), SALES).collect()
    expected = control_totals(unreadable, fates, SALES).collect()

    assert by_partition(survey) == [
        {
            "partition": 0,
            "committed": 4,
            "counted": 1,
            "duplicate": 1,
            "conflict": 0,
            "unreadable": 2,
            "waiting": 0,
        },
        {
            "partition": 1,
            "committed": 1,
            "counted": 0,
            "duplicate": 0,
            "conflict": 0,
            "unreadable": 1,
            "waiting": 0,
        },
    ]
    assert [(row["store_id"], row["events"], row["gross_minor"]) for row in rows] == [("1", 1, 100)]
    assert [(row["store_id"], int(row["events"])) for row in expected] == [("1", 1)]
    assert (
        fates.where("elsewhere").count(),
        survey.count("conflict", "unreadable", days=[MONDAY]),
        survey.count("conflict", "unreadable", days=[WEDNESDAY]),
    ) == (0, 3, 0)


def test_survey_counts_fates_by_day(fates: DataFrame) -> None:
    survey = Survey.from_fates(fates)

    assert (
        survey.count("committed", days=[WEDNESDAY]),
        survey.count("conflict", "unreadable", days=[WEDNESDAY]),
        survey.count("committed"),
    ) == (2, 1, sum(line["committed"] for line in survey.ledger([MONDAY, WEDNESDAY])))


def test_only_what_no_published_generation_includes_is_told(
    spark: SparkSession, master: DataFrame, unreadable: DataFrame
) -> None:
    pinned = spark.createDataFrame([(MONDAY, 0, 4), (WEDNESDAY, 0, 4)], PINNED)
    nothing = pinned.limit(0)

    def told(records: DataFrame, beyond: DataFrame) -> list[tuple[int, int, str]]:
        return sorted(
            tuple(row) for row in select_unreported(classify_records(records), beyond).collect()
        )

    assert told(master, nothing) == [(0, 3, "conflict"), (0, 4, "conflict")]
    assert told(master, pinned) == [(0, 4, "conflict")]
    assert told(unreadable, nothing) == [
        (0, 2, "unreadable"),
        (0, 3, "unreadable"),
        (1, 2, "unreadable"),
    ]
    assert told(unreadable, pinned) == [(1, 2, "unreadable")]


def days_of_a_till(till: str, records: int, conflicts: int) -> list[Canonical]:
    """Receipts of Monday, and on Wednesday as many of which the last have Monday's numbers
    again."""
    numbers = [*range(1000, 1000 + records - conflicts), *range(conflicts)]
    monday = [receipt("7", int(f"{till}{number:05}"), at(MONDAY, 9)) for number in range(records)]
    wednesday = [
        receipt("7", int(f"{till}{number:05}"), at(WEDNESDAY, 9), 200) for number in numbers
    ]
    return [msgspec.structs.replace(record, till_id=till) for record in [*monday, *wednesday]]


def test_till_whose_numbers_begin_again_is_found_by_its_share_of_conflicts(
    spark: SparkSession,
) -> None:
    # All conflicts; just at both limits; one too few; too small a share. Small tills: all of five,
    # half of six, too small a share, and too few.
    stories = {"1": (40, 40), "2": (200, 20), "3": (200, 19), "4": (201, 20)}
    stories |= {"9": (3, 0), "5": (5, 5), "6": (6, 3), "7": (7, 3), "8": (2, 2)}
    records = [
        record
        for till, (records, conflicts) in stories.items()
        for record in days_of_a_till(till, records, conflicts)
    ]
    master = spark.createDataFrame(
        [master_row(offset, record) for offset, record in enumerate(records)], MASTER
    )

    found = {tuple(row) for row in conflicting_tills(master, classify_records(master)).collect()}

    assert found == {
        ("7", WEDNESDAY, till, *counts) for till, counts in stories.items() if counts[1]
    }
