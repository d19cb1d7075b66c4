"""The raw receipts: each as it arrived, the first by offset wins, whatever lies between them and
however large they are."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from ingest.sources.sales.record import CanonicalReceipt
from speed_layer.receipts import start_receipts
from speed_layer.session import read_canonical_stream
from speed_layer.state.records import parse_reports
from tally.events.identity import partition_number
from tests.integration.speed.query import NOON, Report, SpeedQuery, last_report
from tests.integration.speed.records.test_unreadable import UNREADABLE
from tests.support.clients.producers import connected_producer
from tests.support.sources.canonical import receipt

DAY = NOON.date().isoformat()
LARGE = 800_000


def keep_receipts(query: SpeedQuery) -> Report:
    """Everything on the topic is in the table; the report of the last micro-batch."""
    records = read_canonical_stream(
        query.spark,
        query.settings,
        {query.topic: dict.fromkeys(range(query.settings.partitions), 0)},
        100_000,
    )
    # Ten seconds lie between two of the product's: the second one says that nothing is left.
    at_once = query.settings.model_copy(update={"receipts_trigger_seconds": 0.0})
    running = start_receipts(records, at_once)
    try:
        running.processAllAvailable()
        return last_report(running)
    finally:
        running.stop()


def rows_of(query: SpeedQuery, columns: str = "*") -> list[Any]:
    """The store's receipts of the day."""
    text = (
        f"SELECT {columns} FROM raw_pos_transaction_byday WHERE year_day = %s AND operation_id = %s"
    )
    return list(query.session.execute(text, [DAY, query.store]))


def put(query: SpeedQuery, *values: bytes | None) -> None:
    """Anything onto the store's partition of the topic."""
    producer = connected_producer(query.settings, {"message.max.bytes": 7_000_000})
    for value in values:
        producer.produce(
            query.topic,
            value,
            query.store,
            partition_number(query.store, query.settings.partitions),
        )
        producer.flush(30)


def test_raw_receipts_are_kept_as_they_arrived_and_the_first_by_offset_wins(
    query: SpeedQuery,
) -> None:
    query.send(query.sale(1, cents=150), query.sale(1, cents=999), query.sale(2, cents=7))

    keep_receipts(query)

    rows = rows_of(query)
    assert [(row.transaction_id, row.source_offset, row.kind, row.currency) for row in rows] == [
        ("1", 0, "sale", "USD"),
        ("2", 2, "sale", "USD"),
    ]
    assert [json.loads(line) for line in rows[0].transactions] == [
        {"item": "Milk", "item_id": "m1", "price": "1.5", "amount_milli": 1000, "total_minor": 150}
    ]
    assert rows[0].happened_at.replace(tzinfo=UTC) == NOON


def test_sale_and_its_void_of_the_same_number_and_instant_are_both_kept(query: SpeedQuery) -> None:
    sold = query.sale(1)
    void = msgspec.structs.replace(sold, kind="void", event_id=f"void:{sold.event_id}")
    query.send(sold, void)

    keep_receipts(query)

    assert [(row.transaction_id, row.kind) for row in rows_of(query)] == [
        ("1", "sale"),
        ("1", "void"),
    ]


def test_receipt_of_this_second_is_kept(query: SpeedQuery) -> None:
    now = datetime.now(UTC)
    query.send(query.sale(1, now))

    keep_receipts(query)

    text = (
        "SELECT transaction_id FROM raw_pos_transaction_byday WHERE year_day = %s AND operation_id"
        " = %s"
    )
    assert [
        row.transaction_id
        for row in query.session.execute(text, [now.date().isoformat(), query.store])
    ] == ["1"]


def test_twenty_large_receipts_of_one_store_and_day_are_kept_in_one_micro_batch(
    query: SpeedQuery,
) -> None:
    put(
        query,
        *(msgspec.json.encode(large(receipt(query.store, number, NOON))) for number in range(20)),
    )

    report = keep_receipts(query)

    assert report["numInputRows"] == 20
    assert sorted(int(row.transaction_id) for row in rows_of(query, "transaction_id")) == [
        *range(20)
    ]


def large(sold: CanonicalReceipt) -> CanonicalReceipt:
    """The receipt with items whose names are that long."""
    (line,) = sold.lines
    names = [f"{number:04}" + "n" * 196 for number in range(LARGE // 200)]
    return msgspec.structs.replace(
        sold, lines=tuple(msgspec.structs.replace(line, item=name) for name in names)
    )


def test_what_cannot_be_counted_stops_neither_the_receipts_nor_the_view(query: SpeedQuery) -> None:
    odd = [value for value in UNREADABLE.values() if value is None or len(value) < 1_000_000]
    no_till = json.loads(msgspec.json.encode(query.sale(3)))
    del no_till["till_id"]
    no_line = json.loads(msgspec.json.encode(query.sale(4))) | {
        "lines": [None, 5, {"item": "Milk"}]
    }
    query.send(query.sale(1, cents=5))
    put(query, *odd, json.dumps(no_till).encode(), json.dumps(no_line).encode())
    query.send(query.sale(2, cents=7))

    kept, viewed = keep_receipts(query), query.run()

    assert [
        row.transactions
        for row in rows_of(query, "transaction_id, transactions")
        if row.transaction_id == "4"
    ] == [["null", "5", '{"item":"Milk"}']]
    assert sorted(row.transaction_id for row in rows_of(query, "transaction_id")) == ["1", "2", "4"]
    # A receipt without its till is counted all the same: the view needs none.
    assert query.totals() == [(4, 5 + 7 + 200)]
    unreadable = [
        sum(report.unreadable for report in parse_reports(batch_report))
        for batch_report in (kept, viewed)
    ]
    assert unreadable == [len(odd) + 1, len(odd)]


def test_six_megabytes_of_garbage_stop_neither(query: SpeedQuery) -> None:
    query.send(query.sale(1))
    put(query, b"\xf0" * 6_000_000, b"{" * 6_000_000)
    query.send(query.sale(2))

    keep_receipts(query)
    query.run()

    assert (len(rows_of(query)), query.totals()) == (2, [(2, 200)])


def test_receipt_of_another_store_in_between_is_kept_apart(query: SpeedQuery) -> None:
    query.send(query.sale(1), receipt(f"{query.store}-other", 1, NOON), query.sale(2))

    keep_receipts(query)

    assert sorted(row.transaction_id for row in rows_of(query, "transaction_id")) == ["1", "2"]
