from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from runtime.registry.sources import TRAFFIC
from tally.events.identity import partition_number
from tests.controls.layers.uncommitted import uncommitted_stream
from tests.integration.speed.query import NOON, SpeedQuery
from tests.support.clients.producers import connected_producer
from tests.support.sources.canonical import interval

QUARTER = timedelta(minutes=15)


def test_receipts_and_cents_of_each_window(query: SpeedQuery) -> None:
    query.send(
        query.sale(1, cents=150),
        query.sale(2, NOON + QUARTER - timedelta(seconds=1)),
        query.sale(3, NOON + QUARTER, cents=7),
    )

    query.run()

    assert query.rows() == [(NOON, "USD", 2, 2, 250), (NOON + QUARTER, "USD", 1, 1, 7)]


def test_receipt_of_a_till_with_a_reset_clock_stops_nobody(query: SpeedQuery) -> None:
    query.send(query.sale(1, datetime(1, 1, 1, tzinfo=UTC)), query.sale(2))

    query.run()

    assert query.rows() == [(NOON, "USD", 1, 1, 100)]


def one_aborted_and_one_committed(query: SpeedQuery) -> None:
    """A receipt of 100 cents whose transaction was aborted, and one of 7 cents."""
    producer = connected_producer(query.settings, {"transactional.id": query.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(
        query.topic,
        msgspec.json.encode(query.sale(1)),
        query.store,
        partition_number(query.store, query.settings.partitions),
    )
    producer.flush(30)
    producer.abort_transaction(30)
    query.send(query.sale(2, cents=7))


def test_record_of_an_aborted_transaction_is_not_counted(query: SpeedQuery) -> None:
    one_aborted_and_one_committed(query)

    query.run()

    assert query.rows() == [(NOON, "USD", 1, 1, 7)]


def test_negative_control_who_reads_uncommitted_counts_what_was_aborted(query: SpeedQuery) -> None:
    query = replace(query, read=uncommitted_stream)
    one_aborted_and_one_committed(query)

    query.run()

    assert query.rows() == [(NOON, "USD", 2, 2, 107)]


def test_each_currency_has_its_row_and_all_rows_carry_the_windows_events(query: SpeedQuery) -> None:
    query.send(
        query.sale(1, cents=5),
        query.sale(2, cents=6, currency="EUR"),
        query.sale(3, cents=7, currency="EUR"),
    )

    query.run()

    assert query.rows() == [(NOON, "EUR", 3, 2, 13), (NOON, "USD", 3, 1, 5)]


def test_family_without_axes_has_one_row_a_window(query: SpeedQuery) -> None:
    traffic = replace(query, family=TRAFFIC)
    traffic.send(interval(query.store, "door-1", NOON, 3), interval(query.store, "door-2", NOON, 4))

    traffic.run()

    assert traffic.rows('window_start, events, "entries", exits, passers_by') == [
        (NOON, 2, 7, 0, 0)
    ]


@pytest.mark.parametrize("batches", [1, 2])
def test_duplicate_counts_once(query: SpeedQuery, batches: int) -> None:
    first, second = [query.sale(1), query.sale(2)], [query.sale(1), query.sale(1)]

    query.batches(*([first + second] if batches == 1 else [first, second]))

    assert query.rows() == [(NOON, "USD", 2, 2, 200)]


@pytest.mark.parametrize("cents", [(100, 900), (900, 100)])
@pytest.mark.parametrize("batches", [1, 2])
def test_of_two_payloads_of_one_identity_the_first_by_offset_counts(
    query: SpeedQuery, cents: tuple[int, int], batches: int
) -> None:
    first, second = [query.sale(1, cents=cents[0])], [query.sale(1, cents=cents[1])]

    query.batches(*([first + second] if batches == 1 else [first, second]))

    assert query.rows() == [(NOON, "USD", 1, 1, cents[0])]


def test_conflict_in_another_currency_leaves_no_row_of_its_own(query: SpeedQuery) -> None:
    query.send(query.sale(1), query.sale(1, currency="EUR"))

    query.run()

    assert query.rows() == [(NOON, "USD", 1, 1, 100)]


def test_conflict_in_another_window_counts_there_until_batch_takes_it_back(
    query: SpeedQuery,
) -> None:
    query.send(query.sale(1), query.sale(1, NOON + QUARTER, cents=900))

    query.run()

    assert query.rows() == [(NOON, "USD", 1, 1, 100), (NOON + QUARTER, "USD", 1, 1, 900)]
