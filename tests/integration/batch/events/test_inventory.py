"""A level by article in both layers: documents with copies, conflicts and a late count, through the
streaming query and a rebuild; and what there is by them and by receipts, as the API answers."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from ingest.sources.inventory.contract import MAX_MILLI
from ops.audit.against_master import generation_differences
from ops.audit.master import Master
from ops.audit.served import read_claims
from ops.local.processes.service import Site
from runtime.connect import cassandra_session
from runtime.records.gaps import declare_backfill
from runtime.registry.sources import FAMILIES
from speed_layer.session import STREAMING
from tally.algebra.level import Level
from tally.time.windows import window_start
from tests.integration.batch.documents import (
    BOTH,
    BREAD,
    GONE,
    HOSTILE,
    INVENTORY,
    LATE,
    LONG,
    MILK,
    MONDAY,
    MOST,
    NEXT,
    ODD,
    ON_TIME,
    SOLD,
    TODAY,
    WEDNESDAY,
    DocumentStory,
    millis,
    minute_by_minute,
    rows,
    served,
    stock,
    stream,
)
from tests.integration.batch.parts import Parts, at
from tests.support.sources.canonical import send


@pytest.fixture(scope="module")
def parts(
    spark: SparkSession, own_site: Site, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Parts]:
    home = tmp_path_factory.mktemp("master")
    settings = own_site.settings.model_copy(
        update={"home": home, "ingest_trigger_seconds": 0.0, "receipts_trigger_seconds": 0.0}
    )
    for name, value in STREAMING.items():
        spark.conf.set(name, value)
    begun = window_start(datetime.now(UTC))
    with cassandra_session(settings) as session, pytest.MonkeyPatch.context() as patched:
        patched.setattr("batch_layer.views.compute.plan.read_broker_time", lambda _settings: begun)
        for family in FAMILIES:
            declare_backfill(session, family, (MONDAY, WEDNESDAY), "the story")
        yield Parts(spark, session, settings)


@pytest.fixture(scope="module")
def told(parts: Parts) -> DocumentStory:
    send(parts.settings, INVENTORY.topic, (*ON_TIME, *HOSTILE))
    parts.append(*SOLD)
    stream(parts)
    parts.rebuild("full", families=BOTH)
    speed, batch, found = rows(parts, "inventory_15min"), served(parts), stock(parts)
    # In two micro-batches: the second one is late by what the first one has seen.
    send(parts.settings, INVENTORY.topic, [NEXT])
    stream(parts)
    send(parts.settings, INVENTORY.topic, [LATE])
    parts.append()
    stream(parts)
    parts.rebuild(families=BOTH)
    return DocumentStory(
        speed, batch, rows(parts, "inventory_15min"), served(parts), found, stock(parts)
    )


def test_both_layers_hold_the_same_rows(told: DocumentStory) -> None:
    assert told.speed == told.batch and len(told.batch) == 10
    print(f"{len(told.batch)} rows of both layers compared")


def test_rows_are_those_of_the_first_copies_by_hand(told: DocumentStory) -> None:
    counted, moved = Level.encode_count, Level.encode_movement
    ten, quarter, third = (at(MONDAY, 10, minute) for minute in (0, 15, 30))

    assert {key: row for key, row in told.batch.items() if key[0] != "3"} == {
        # Distinct events of the window, then counts, delivered, in, out.
        ("1", ten, MILK): (2, 1, 0, 0, 0, [[millis(ten), counted(20_000)]]),
        ("1", ten, BREAD): (2, 0, 30_000, 0, 0, [[millis(at(MONDAY, 10, 5)), moved(30_000)]]),
        ("1", quarter, MILK): (
            *(1, 0, 0, 0, 3000),
            [[millis(at(MONDAY, 10, 20)), moved(-3000)]],
        ),
        ("1", third, BREAD): (
            *(3, 1, 107_000, 0, 0),
            [
                [millis(at(MONDAY, 10, 40)), counted(5000)],
                [millis(at(MONDAY, 10, 41)), moved(7000)],
            ],
        ),
        ("2", at(TODAY, 0), ODD): (3, 1, 0, 0, 0, [[millis(at(TODAY, 0, 3)), counted(1000)]]),
        ("2", at(TODAY, 0), MILK): (
            *(3, 1, 0, 1000, 0),
            [[millis(at(TODAY, 0, 1)), counted(4000)], [millis(at(TODAY, 0, 2)), moved(1000)]],
        ),
    }


def test_rows_of_odd_articles_and_of_the_most_that_is_taken_are_those_by_hand(
    told: DocumentStory,
) -> None:
    counted, moved = Level.encode_count, Level.encode_movement
    noon, quarter, half, third = (at(MONDAY, 12, minute) for minute in (0, 15, 30, 45))
    odd = [counted(MAX_MILLI), moved(MAX_MILLI), moved(MAX_MILLI)]
    gone = [counted(0), moved(-MAX_MILLI), moved(MAX_MILLI)]

    assert {key[1:]: row for key, row in told.batch.items() if key[0] == "3"} == {
        (noon, ODD): (3, 1, 2 * MAX_MILLI, 0, 0, minute_by_minute(12, 0, odd)),
        (quarter, LONG): (1, 0, 1000, 0, 0, minute_by_minute(12, 15, [moved(1000)])),
        (half, GONE): (3, 1, MAX_MILLI, 0, MAX_MILLI, minute_by_minute(12, 30, gone)),
        (third, GONE): (1, 0, 0, 0, 2000, minute_by_minute(12, 46, [moved(-2000)])),
    }


def test_stock_of_them_is_told_as_it_is_and_what_nobody_counted_is_not_known(
    parts: Parts, told: DocumentStory
) -> None:
    found = {metric: stock(parts, "3", 12, metric) for metric in ("stock_on_hand", "lowest_stock")}

    by_article = {
        metric: {
            name: [value for article, value, _ in rows if article == name]
            for name in (ODD, LONG, GONE)
        }
        for metric, rows in found.items()
    }
    nothing = [None] * 4
    assert by_article == {
        "stock_on_hand": {ODD: [3 * MOST] * 4, LONG: nothing, GONE: [None, None, 0, -2]},
        # A dip within a quarter hour, and below 0.
        "lowest_stock": {
            ODD: [MOST, *[3 * MOST] * 3],
            LONG: nothing,
            GONE: [None, None, -MOST, -2],
        },
    }


def test_stock_is_that_of_counts_documents_and_receipts(told: DocumentStory) -> None:
    values = [None, 19, None, 16, 12, 16, 12, 15]

    articles = [BREAD, MILK] * 4
    assert told.stock == [
        (article, value, "batch") for article, value in zip(articles, values, strict=True)
    ]


def test_a_count_behind_the_lateness_is_counted_by_the_rebuild_alone(told: DocumentStory) -> None:
    key = ("1", at(MONDAY, 10), MILK)

    assert told.late_speed[key] == told.speed[key]
    assert told.late_batch[key][:2] == (3, 2)
    assert told.late_batch[key][-1] == [[millis(at(MONDAY, 10, 12)), Level.encode_count(8000)]]
    late_day = {key for key in told.late_batch if key[1].date() == WEDNESDAY}
    assert {key: told.late_speed[key] for key in late_day} == {
        key: told.late_batch[key] for key in late_day
    }


def test_a_late_count_changes_what_hangs_on_it(told: DocumentStory) -> None:
    milk = [one for one in told.restated if one[0] == MILK]

    assert milk == [(MILK, value, "batch") for value in (8, 5, 5, 4)]


def test_the_generation_is_what_the_master_says(parts: Parts, told: DocumentStory) -> None:
    claims = read_claims(parts.session, INVENTORY)

    assert (
        claims
        and generation_differences(parts.session, Master(parts.settings), INVENTORY, claims) == []
    )


def test_a_wrong_cell_is_found_in_either_layer(parts: Parts, told: DocumentStory) -> None:
    noon = at(MONDAY, 12)
    claims = read_claims(parts.session, INVENTORY)
    places = {
        "inventory_15min": "",
        "batch_inventory_15min": f" AND generation = {claims[MONDAY].generation}",
    }
    for table, more in places.items():
        parts.session.execute(
            # Above every epoch, so that it stands.
            f"UPDATE {table} USING TIMESTAMP {1 << 60}"
            f" SET stock_milli = [({millis(noon)}, {Level.encode_count(MAX_MILLI - 1)})]"
            f" WHERE store_id = '3' AND day = %s{more} AND window_start = %s AND item_id = %s"
            " AND dim = '*' AND dim_value = ''",
            (MONDAY, noon, ODD),
        )

    [found] = generation_differences(parts.session, Master(parts.settings), INVENTORY, claims)

    assert (found.store, found.start[:16]) == ("3", "2017-03-06T12:00")
    held = rows(parts, "inventory_15min")
    assert [key for key in told.late_speed if held[key] != told.late_speed[key]] == [
        ("3", noon, ODD)
    ]
