"""What versions and voids of receipts do to the rows of a rebuild: Spark's columns say of each
history what the rule in Python says, and each name of a receipt leads to it."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

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
from ingest.sources.sales.versions import receipt_id
from runtime.registry.sources import SALES
from tally.events.identity import cancellation_id, correction_id, event_id, reversal_id, version_id
from tally.events.receipt_rules import ChainEvent, effective_event_ids
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

HISTORIES, LONGEST = 150, 9
NOON = at(MONDAY, 12)


def as_event(
    name: str, store: str, closed_at: datetime, cents: int, number: str = "42"
) -> CanonicalReceipt:
    """A receipt of one article, as the event of this identity."""
    made = receipt(store, 42, closed_at, cents)
    return msgspec.structs.replace(made, event_id=name, transaction_id=number)


def sales_revised(store: str) -> list[str]:
    """Every kind of version and void of receipt 42."""
    sale = receipt_id(store, "1", "0", "42")
    return [
        *(version_id(sale, number) for number in range(3)),
        *(correction_id(sale, sign * 32) for sign in "0f"),
        cancellation_id(sale, "a" * 32),
        *(reversal_id(sale, until) for until in (None, 0, 1)),
        reversal_id(receipt_id(store, "1", "0", "0042")),
    ]


def random_histories() -> list[CanonicalReceipt]:
    """Of each store what befell its receipt 42, in any order, with copies."""
    chance = random.Random(45)
    events: list[CanonicalReceipt] = []
    for number in range(HISTORIES):
        store = f"s{number}"
        shapes = {
            name: (NOON + timedelta(minutes=chance.choice([0, 5, 40])), chance.randint(1, 900))
            for name in sales_revised(store)
        }
        # A void of all versions is the end of a history, so few have one.
        rare = [1 if name.startswith("void:pos") else 9 for name in shapes]
        names = chance.choices([*shapes], rare, k=chance.randint(1, LONGEST))
        events += [as_event(name, store, *shapes[name]) for name in names]
    chance.shuffle(events)
    return events


def master_of(spark: SparkSession, events: Sequence[CanonicalReceipt]) -> DataFrame:
    rows = [master_row(offset, event) for offset, event in enumerate(events)]
    return spark.createDataFrame(rows, MASTER)


def gross_by_window(master: DataFrame) -> dict[tuple[str, int], int]:
    rows = window_rows(window_members(master, classify_records(master), SALES), SALES)
    found = rows.select("store_id", F.unix_millis("window_start"), "gross_minor").collect()
    return {(store, start): gross for store, start, gross in found if gross}


def test_spark_counts_what_the_rule_counts(spark: SparkSession) -> None:
    events = random_histories()
    first: dict[tuple[str, str], ChainEvent] = {}
    for offset, event in enumerate(events):
        key = (event.store_id, event.event_id)
        first.setdefault(key, ChainEvent(event.event_id, event.happened_at, offset))
    standing = {
        (store, name)
        for store in {store for store, _ in first}
        for name in effective_event_ids(known for (of, _), known in first.items() if of == store)
    }
    fates = classify_records(master_of(spark, events)).cache()

    found = fates.where("fate = 'counted' AND NOT taken_back").select("store_id", "event_id")
    counted = {tuple(row) for row in found.collect()}

    assert counted == standing
    assert len(standing) > HISTORIES / 4
    # A planted wrong one is found: the void of a store whose receipt stands.
    assert counted != standing ^ {next(iter(standing))}
    print(f"compared {len(first)} events of {HISTORIES} histories: {len(standing)} count")


def test_sums_without_members_agree_with_the_rows(spark: SparkSession) -> None:
    master = master_of(spark, random_histories())

    expected = control_totals(master, classify_records(master), SALES).collect()

    sums = {(row["store_id"], row["window_start"]): int(row["gross_minor"]) for row in expected}
    assert {key: gross for key, gross in sums.items() if gross} == gross_by_window(master)


SALE = receipt_id("1", "1", "0", "42")
REVISED = [
    as_event(SALE, "1", at(MONDAY, 10), 1000),
    as_event(version_id(SALE, 1), "1", at(WEDNESDAY, 10), 900),
    as_event(version_id(SALE, 2), "1", at(MONDAY, 10), 800),
]


def test_the_highest_revision_counts_alone_across_days(spark: SparkSession) -> None:
    master = master_of(spark, REVISED)

    assert gross_by_window(master) == {("1", millis(at(MONDAY, 10))): 800}


def test_a_void_takes_back_the_receipt_after_any_revision(spark: SparkSession) -> None:
    void = as_event(reversal_id(SALE), "1", at(WEDNESDAY, 11), -800)
    again = as_event(reversal_id(SALE), "1", at(WEDNESDAY, 12), -1000)

    fates = classify_records(master_of(spark, [*REVISED, void, again])).cache()

    assert gross_by_window(master_of(spark, [*REVISED, void, again])) == {}
    # Two voids of one receipt are one.
    assert Survey.from_fates(fates).count("conflict", "waiting") == 0


@pytest.mark.parametrize(
    ("number", "reference", "named", "is_found"),
    [
        ("000042", None, receipt_id("1", "1", "0", "42"), True),
        ("6", "2603020003670006", event_id("reference", "1", "2603020003670006"), True),
        ("Order 7:3", None, event_id("reference", "1", "Order 7:3"), True),
        ("6", "other", event_id("reference", "1", "2603020003670006"), False),
    ],
)
def test_a_void_finds_its_receipt_by(
    spark: SparkSession, number: str, reference: str | None, named: str, is_found: bool
) -> None:
    sale = as_event(receipt_id("1", "1", "0", number), "1", at(MONDAY, 10), 1000, number)
    sale = msgspec.structs.replace(sale, reference=reference)
    void = as_event(reversal_id(named), "1", at(WEDNESDAY, 10), -1000, "7")
    master = master_of(spark, [sale, void])

    kept = {} if is_found else {("1", millis(at(MONDAY, 10))): 1000}
    assert gross_by_window(master) == kept
    assert Survey.from_fates(classify_records(master)).count("waiting") == (not is_found)


def test_a_reference_of_two_receipts_names_none(spark: SparkSession) -> None:
    sales = [
        msgspec.structs.replace(
            as_event(receipt_id("1", "1", "0", number), "1", at(MONDAY, 10), 1000, number),
            reference="tab 7",
        )
        for number in ("6", "8")
    ]
    void = as_event(reversal_id(event_id("reference", "1", "tab 7")), "1", NOON, -1000, "9")
    fates = classify_records(master_of(spark, [*sales, void])).cache()

    assert Survey.from_fates(fates).count("waiting") == 1
    assert fates.where("taken_back AND NOT event_id LIKE 'void:%'").count() == 0
