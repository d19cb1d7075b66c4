"""Canonical records made by hand, and sent to a topic as the normaliser would: to the store's
partition, keyed by store."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec
from confluent_kafka import Message

from ingest.sources.inventory.contract import SIGNS, CanonicalStockLine, DocumentKind
from ingest.sources.sales.record import CanonicalReceipt, Line
from ingest.sources.sales.versions import receipt_id
from ingest.sources.traffic.contract import CanonicalInterval
from ingest.sources.wifi.contract import CanonicalSighting
from runtime.kafka.producer import BlockingProducer
from tally.algebra.level import Level
from tally.algebra.parts import KeyedSum
from tally.config.settings import Settings
from tally.events.identity import (
    SCHEMA_VERSION,
    digest_text,
    event_id,
    fingerprint,
    interval_id,
    partition_number,
    reversal_id,
    sensor_key,
)
from tally.people.visits import UNKNOWN_HOURS
from tally.time.instants import format_utc
from tests.support.clients.producers import connected_producer

Canonical = CanonicalReceipt | CanonicalInterval | CanonicalSighting | CanonicalStockLine
Placed = tuple[int, int]


def receipt(
    store: str, number: int, happened_at: datetime, cents: int = 100, currency: str = "USD"
) -> CanonicalReceipt:
    """A sale of one item; the same store and number is the same identity."""
    return CanonicalReceipt(
        schema_version=SCHEMA_VERSION,
        event_id=receipt_id(store, "1", "0", str(number)),
        store_id=store,
        happened_at=format_utc(happened_at),
        received_at=format_utc(happened_at),
        fingerprint=fingerprint([format_utc(happened_at), cents]),
        raw_partition=0,
        raw_offset=0,
        till_id="1",
        transaction_id=str(number),
        numbering_epoch="0",
        kind="sale",
        currency=currency,
        receipts=1,
        gross_minor=cents,
        discounts_minor=0,
        returns_minor=0,
        voids_minor=0,
        units_milli=1000,
        returned_receipts=0,
        non_sales_minor=0,
        lines=(
            Line(
                item="Milk",
                item_id="m1",
                price=str(cents / 100),
                amount_milli=1000,
                total_minor=cents,
            ),
        ),
    )


def void_of(taken: CanonicalReceipt, happened_at: datetime) -> CanonicalReceipt:
    """What takes a receipt back."""
    return msgspec.structs.replace(
        taken,
        event_id=reversal_id(taken.event_id),
        happened_at=format_utc(happened_at),
        received_at=format_utc(happened_at),
        fingerprint=fingerprint(["void", taken.event_id]),
        kind="void",
        receipts=-taken.receipts,
        gross_minor=-taken.gross_minor,
        units_milli=-taken.units_milli,
        lines=(),
    )


def interval(store: str, device: str, happened_at: datetime, entries: int = 1) -> CanonicalInterval:
    """One minute of one people counter."""
    text = format_utc(happened_at)
    return CanonicalInterval(
        schema_version=SCHEMA_VERSION,
        event_id=interval_id("traffic", store, device, text),
        store_id=store,
        happened_at=text,
        received_at=text,
        fingerprint=fingerprint([text, entries]),
        raw_partition=0,
        raw_offset=0,
        device_id=device,
        interval_seconds=60,
        entries=entries,
        exits=0,
        passers_by=0,
        entries_with_passers=0,
        groups_in=entries,
        observed_seconds=KeyedSum.encode(sensor_key(int(digest_text(device), 16)), 60),
    )


def sighting(store: str, access_point: str, happened_at: datetime) -> CanonicalSighting:
    """A device in the key period of the UTC day."""
    text, device = format_utc(happened_at), "0" * 32
    begin = int(happened_at.timestamp()) // 86_400 * 1440
    identity = f"{event_id('wifi', store, access_point, device)}:{text}"
    return CanonicalSighting(
        schema_version=SCHEMA_VERSION,
        event_id=identity,
        store_id=store,
        happened_at=text,
        received_at=text,
        fingerprint=fingerprint([identity]),
        raw_partition=0,
        raw_offset=0,
        device_hash=device,
        mac_class="fixed",
        ap_id=access_point,
        rssi_dbm=-60,
        key_period=happened_at.date().isoformat(),
        period_start=begin,
        period_end=begin + 1440,
        open_at=UNKNOWN_HOURS,
    )


def stock_line(
    store: str, document: str, kind: DocumentKind, happened_at: datetime, **amounts: int
) -> CanonicalStockLine:
    """The line of a document about one article, named, of so many units."""
    ((article, units),) = amounts.items()
    milli, text = 1000 * units, format_utc(happened_at)
    identity = event_id("inventory", store, document, article)
    brought = (
        Level.encode_count(milli) if kind == "count" else Level.encode_movement(SIGNS[kind] * milli)
    )
    return CanonicalStockLine(
        schema_version=SCHEMA_VERSION,
        event_id=identity,
        store_id=store,
        happened_at=text,
        received_at=text,
        fingerprint=fingerprint([identity, text, kind, milli]),
        raw_partition=0,
        raw_offset=0,
        document_id=document,
        line=article,
        kind=kind,
        item_id=article,
        amount_milli=milli,
        counts=int(kind == "count"),
        delivered_milli=milli if kind == "delivery" else 0,
        transferred_in_milli=milli if kind == "transfer_in" else 0,
        transferred_out_milli=milli if kind == "transfer_out" else 0,
        stock_milli=brought,
    )


def send(settings: Settings, topic: str, records: Iterable[Canonical]) -> Sequence[Placed]:
    """(partition, offset) of each record, all acknowledged."""
    placed: list[Placed] = []

    def keep(message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        placed.append((partition, offset))

    sender = BlockingProducer(connected_producer(settings), 60, keep)
    for record in records:
        partition = partition_number(record.store_id, settings.partitions)
        sender.send(topic, msgspec.json.encode(record), record.store_id, partition)
    sender.flush(f"topic {topic}", "look into the broker's log")
    return placed
