"""What a generation may claim while records still wait: before the normaliser, or before the
master ingest."""

import time
from datetime import UTC, datetime, timedelta, tzinfo
from threading import Timer

import msgspec
import pytest
from cassandra.cluster import Session
from confluent_kafka import Message, TopicPartition
from pyspark.sql import SparkSession

from batch_layer.master.positions import read_bounds_by_topic
from batch_layer.views.compute import pin
from batch_layer.views.compute.pin import (
    UNKNOWN_PAST,
    Pin,
    oldest_canonical,
    pin_master,
    stable_offsets,
)
from batch_layer.views.compute.scope import RebuildRequest
from batch_layer.views.publish.pointer import PointerTable
from batch_layer.views.publish.publication import RebuildJob
from batch_layer.views.rebuild import rebuild
from runtime.connect import NORMALISER_GROUP, kafka_consumer
from runtime.kafka.broker_clock import read_broker_time
from runtime.kafka.topics import Bounds
from runtime.registry.sources import SALES
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tests.integration.batch.conftest import Ingest
from tests.support.clients.producers import connected_producer
from tests.support.sources.canonical import receipt, send

RAW = "posTransactionTopic"
MORNING = datetime(2017, 3, 6, 9, 20, tzinfo=UTC)
STORE = "367"


@pytest.fixture(autouse=True)
def everything_taken_in(batch_settings: Settings, ingest: Ingest) -> None:
    """A master with one record, which holds all that the canonical topic does; the normaliser
    has passed all raw records."""
    send(batch_settings, "sales", [receipt(STORE, 1, MORNING)])
    ingest()
    normalise_all(batch_settings)


def normalise_all(settings: Settings) -> None:
    """The group's positions moved to the ends, as the normaliser leaves them."""
    consumer = kafka_consumer(settings, NORMALISER_GROUP)
    parts = [TopicPartition(RAW, number) for number in range(settings.partitions)]
    ends = [
        TopicPartition(RAW, part.partition, consumer.get_watermark_offsets(part, timeout=30)[1])
        for part in parts
    ]
    consumer.commit(offsets=ends, asynchronous=False)
    consumer.close()


def send_raw(settings: Settings) -> datetime:
    """A raw record acknowledged; when it arrived."""
    stamps: list[int] = []

    def keep(error: object, message: Message) -> None:
        assert error is None, error
        stamps.append(message.timestamp()[1])

    producer = connected_producer(settings)
    producer.produce(RAW, b"{}", partition=2, on_delivery=keep)
    assert producer.flush(30) == 0
    return datetime.fromtimestamp(stamps[0] / 1000, UTC)


def pinned(settings: Settings, now: datetime) -> Pin:
    return pin_master(settings, SALES, now)


def test_nothing_waits_and_everything_until_now_is_claimed(
    spark: SparkSession, batch_settings: Settings
) -> None:
    now = datetime.now(UTC)

    assert pinned(batch_settings, now).through == dict.fromkeys(
        range(batch_settings.partitions), now
    )


def test_record_before_the_normaliser_holds_back_what_is_covered(
    spark: SparkSession, batch_settings: Settings
) -> None:
    arrival = send_raw(batch_settings)
    send_raw(batch_settings)
    now = read_broker_time(batch_settings)

    behind = pinned(batch_settings, now)
    normalise_all(batch_settings)

    assert set(behind.through.values()) == {
        arrival.replace(microsecond=arrival.microsecond // 1000 * 1000)
    }
    assert set(pinned(batch_settings, now).through.values()) == {now}


def test_record_of_an_open_transaction_is_waited_for_and_not_passed_over(
    spark: SparkSession, batch_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, now = partition_number(STORE, batch_settings.partitions), datetime.now(UTC)
    producer = connected_producer(batch_settings, {"transactional.id": "open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("sales", msgspec.json.encode(receipt(STORE, 4, MORNING)), STORE, own)
    producer.flush(30)
    monkeypatch.setattr(pin, "TIMEOUT_SECONDS", 2.0)

    through = pinned(batch_settings, now).through
    ending = Timer(1.0, producer.commit_transaction)
    ending.start()
    kept, still_open = stable_offsets(batch_settings, "sales")
    ending.join()

    assert through == {**dict.fromkeys(range(batch_settings.partitions), now), own: UNKNOWN_PAST}
    assert still_open == set() and kept == read_bounds_by_topic(batch_settings, ["sales"])["sales"]


def test_record_before_the_master_holds_back_its_partition(
    spark: SparkSession, batch_settings: Settings, ingest: Ingest
) -> None:
    late = [
        receipt(STORE, 2, MORNING + timedelta(hours=2)),
        receipt(STORE, 3, MORNING + timedelta(hours=1)),
    ]
    send(batch_settings, "sales", late)
    now, own = datetime.now(UTC), partition_number(STORE, batch_settings.partitions)

    behind = pinned(batch_settings, now)
    ingest()

    # The earliest arrival of them, wherever it lies: catching up, the normaliser goes by event
    # time.
    assert behind.through == {
        **dict.fromkeys(range(batch_settings.partitions), now),
        own: MORNING + timedelta(hours=1),
    }
    assert set(pinned(batch_settings, now).through.values()) == {now}


def test_of_records_that_kafka_no_longer_keeps_nothing_is_claimed(
    spark: SparkSession, batch_settings: Settings
) -> None:
    assert oldest_canonical(
        batch_settings, "sales", until={0: 5}, kept={0: Bounds(7, 9), 1: Bounds(0, 0)}
    ) == {0: UNKNOWN_PAST}


def test_clock_of_the_brokers_is_that_of_arrivals_whatever_the_drivers_says(
    spark: SparkSession,
    batch_settings: Settings,
    session: Session,
    ingest: Ingest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Ahead":
            return cls.fromtimestamp(time.time() + 3600, tz)

    for module in (
        "publish.publication",
        "compute.plan",
        "compute.pin",
        "publish.pointer",
        "compute.scope",
    ):
        monkeypatch.setattr(f"batch_layer.views.{module}.datetime", Ahead, raising=False)
    today = datetime.now(UTC)
    send(batch_settings, "sales", [receipt(STORE, 9, today)])
    ingest()

    rebuild(RebuildJob(lambda: spark, session, batch_settings, RebuildRequest(), [SALES]))
    arrival = send_raw(batch_settings)

    pointer = PointerTable(session, SALES.name).current()[today.date()]
    row = session.execute(
        "SELECT flipped_at FROM batch_pointer WHERE family = 'sales' AND day = %s", [today.date()]
    ).one()
    assert all(instant <= arrival for instant in pointer.through.values())
    assert row.flipped_at.replace(tzinfo=UTC) <= arrival


def test_garbage_before_the_master_holds_back_its_partition_from_when_it_came(
    spark: SparkSession, batch_settings: Settings, ingest: Ingest
) -> None:
    ingest()
    # Its record of what the master holds is of an earlier moment: nothing of the garbage is taken
    # in.
    held = {
        number: end
        for number, (_, end) in read_bounds_by_topic(batch_settings, ["sales"])["sales"].items()
    }
    before = read_broker_time(batch_settings)
    garbage = [
        None,
        b"",
        b"\xff\xfe",
        b'{"received_at":"+294247-01-10T04:00:54Z"}',
        b'{"received_at":7}',
        b'{"received_at":"9' + b"9" * 2000 + b'"}',
    ]
    producer = connected_producer(batch_settings)
    for number, value in enumerate(garbage):
        producer.produce("sales", value, partition=number % batch_settings.partitions)
    assert producer.flush(30) == 0

    oldest = oldest_canonical(
        batch_settings,
        "sales",
        held,
        read_bounds_by_topic(batch_settings, ["sales"])["sales"],
    )

    slack = timedelta(seconds=5)
    assert len(oldest) == batch_settings.partitions and all(
        before - slack < at < before + timedelta(minutes=5) for at in oldest.values()
    )
