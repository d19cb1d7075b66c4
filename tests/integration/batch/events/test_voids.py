"""What a void does to the rows of a rebuild: the receipt and its void add nothing, wherever the two
lie and in whichever order they came; a void of nothing waits."""

from collections.abc import Sequence
from datetime import date
from itertools import permutations
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.views.compute.classification import (
    classify_records,
    control_totals,
    window_members,
)
from batch_layer.views.compute.computation import Survey
from ingest.sources.sales.record import CanonicalReceipt
from runtime.registry.sources import SALES
from tally.events.identity import fingerprint, reversal_id
from tally.spark.frames import window_rows
from tests.integration.batch.test_fates import (
    MASTER,
    MONDAY,
    WEDNESDAY,
    at,
    master_row,
    millis,
)
from tests.support.sources.canonical import receipt


def void(taken: CanonicalReceipt, number: int, day: date, hour: int) -> CanonicalReceipt:
    """What takes the receipt back, as the receipt of this number."""
    made = receipt("1", number, at(day, hour), taken.gross_minor)
    return msgspec.structs.replace(
        made,
        event_id=reversal_id(taken.event_id),
        fingerprint=fingerprint([made.fingerprint, number]),
        kind="void",
        receipts=-taken.receipts,
        gross_minor=-taken.gross_minor,
        units_milli=-taken.units_milli,
    )


SALE = receipt("1", 1, at(MONDAY, 10), 100)
OTHER = receipt("1", 2, at(MONDAY, 10, 5), 200)
VOID = void(SALE, 3, WEDNESDAY, 9)
SECOND_VOID = void(SALE, 4, WEDNESDAY, 12)


def master_of(spark: SparkSession, records: Sequence[CanonicalReceipt]) -> DataFrame:
    rows = [master_row(offset, record) for offset, record in enumerate(records)]
    return spark.createDataFrame(rows, MASTER)


def rows_of(master: DataFrame, fates: DataFrame) -> set[tuple[Any, ...]]:
    """Window in milliseconds, events, gross, and gross that is excluded, of each row."""
    rows = window_rows(window_members(master, fates, SALES), SALES).select(
        F.unix_millis("window_start"), "events", "gross_minor", "excluded_gross_minor"
    )
    return {tuple(row) for row in rows.collect()}


MONDAYS = (millis(at(MONDAY, 10)), 2, 200, 100)
WEDNESDAYS = (millis(at(WEDNESDAY, 9)), 1, 0, -100)


@pytest.mark.parametrize("records", [*permutations([SALE, OTHER, VOID])])
def test_receipt_and_its_void_add_nothing_in_whichever_order_they_come(
    spark: SparkSession, records: Sequence[CanonicalReceipt]
) -> None:
    # Sent again, both are copies.
    master = master_of(spark, [*records, VOID, SALE])
    fates = classify_records(master).cache()

    assert rows_of(master, fates) == {MONDAYS, WEDNESDAYS}
    assert Survey.from_fates(fates).count("counted", "duplicate", "waiting") == 3 + 2 + 0
    assert fates.where("reversed_by IS NOT NULL").count() == 1


def test_windows_are_checked_against_sums_that_know_of_voids(spark: SparkSession) -> None:
    master = master_of(spark, [SALE, OTHER, VOID])

    found = control_totals(master, classify_records(master), SALES).collect()

    assert {
        (row["window_start"], int(row["events"]), int(row["gross_minor"])) for row in found
    } == {MONDAYS[:3], WEDNESDAYS[:3]}


def test_second_void_of_a_receipt_is_a_copy_of_the_first(spark: SparkSession) -> None:
    master = master_of(spark, [SALE, OTHER, VOID, SECOND_VOID])
    fates = classify_records(master).cache()

    survey = Survey.from_fates(fates)
    assert (survey.count("conflict"), survey.count("duplicate")) == (0, 1)
    noon = (millis(at(WEDNESDAY, 12)), 1, 0, -100)
    assert rows_of(master, fates) == {MONDAYS, WEDNESDAYS, noon}


def test_void_of_a_receipt_that_has_not_come_waits_and_adds_nothing(spark: SparkSession) -> None:
    master = master_of(spark, [OTHER, VOID])
    fates = classify_records(master).cache()

    # Nothing is excluded: a speed row that knows the receipt too has to keep both.
    assert rows_of(master, fates) == {(MONDAYS[0], 1, 200, 0), (*WEDNESDAYS[:3], 0)}
    assert Survey.from_fates(fates).count("waiting") == 1


def test_a_till_that_voids_its_own_number_is_not_mistaken_for_a_copy(spark: SparkSession) -> None:
    """As tills do that send the receipt again, as voided."""
    same_number = void(SALE, 1, MONDAY, 10)
    master = master_of(spark, [SALE, same_number])

    assert rows_of(master, classify_records(master)) == {(MONDAYS[0], 2, 0, 0)}
    expected = control_totals(master, classify_records(master), SALES)
    assert [int(row["gross_minor"]) for row in expected.collect()] == [0]
