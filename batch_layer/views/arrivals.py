"""What has arrived and is in no generation yet.

The oldest such record bounds what a generation may claim to cover.

A record waits in one of three places: in the raw topic, before the normaliser; in the canonical
topic, in a transaction whose end has not reached its partition; or there, before the master ingest.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime

from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from batch_layer.master.positions import kept_offsets
from runtime.connect import NORMALISER_GROUP, kafka_consumer
from runtime.kafka_source import committed_records
from tally.errors import TallyError
from tally.frames import canonical_records
from tally.instants import from_millis
from tally.settings import Settings

Kept = Mapping[int, tuple[int, int]]
# Longer than the normaliser's transactions may last.
TIMEOUT_SECONDS = 30.0
LOOK_EVERY_SECONDS = 0.1
# Of records that Kafka no longer keeps nobody knows when they arrived: nothing is claimed.
NOTHING = datetime.fromtimestamp(0, UTC)


def oldest_raw(settings: Settings, topic: str) -> datetime | None:
    """Arrival of the oldest record of a raw topic that the normaliser has not passed.

    None if there is none. The ends are read before the normaliser's positions: what is not found
    here, and had arrived before this call, has been written to the canonical topic or to the dead
    letters. Raises TallyError when Kafka does not answer.
    """
    consumer = kafka_consumer(settings, NORMALISER_GROUP, {"enable.partition.eof": True})
    try:
        partitions = [
            TopicPartition(topic, number)
            for number in consumer.list_topics(topic, TIMEOUT_SECONDS).topics[topic].partitions
        ]
        if not partitions:
            raise TallyError(
                f"topic {topic}: Kafka names no partition of it; run the rebuild again"
            )
        kept = [
            consumer.get_watermark_offsets(part, timeout=TIMEOUT_SECONDS) for part in partitions
        ]
        reached = [max(0, part.offset) for part in consumer.committed(partitions, TIMEOUT_SECONDS)]
        waiting = zip(partitions, kept, reached, strict=True)
        arrivals = [
            _arrival(consumer, part, at, low) for part, (low, end), at in waiting if at < end
        ]
    finally:
        consumer.close()
    return min((arrival for arrival in arrivals if arrival is not None), default=None)


def _arrival(consumer: Consumer, part: TopicPartition, offset: int, low: int) -> datetime | None:
    """Broker's timestamp of the first record from the offset on.

    None if only markers of transactions follow.
    """
    if offset < low:
        return NOTHING
    consumer.assign([TopicPartition(part.topic, part.partition, offset)])
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            return from_millis(message.timestamp()[1])
        if error.code() == KafkaError._PARTITION_EOF:
            return None
    raise TallyError(
        f"topic {part.topic}, partition {part.partition}: no record in {TIMEOUT_SECONDS:.0f} s;"
        " run the rebuild again"
    )


def stable_offsets(settings: Settings, topic: str) -> tuple[Kept, set[int]]:
    """First offset kept and last stable offset by partition.

    Read when every transaction that the topic held at the call has ended. Also the partitions in
    which one stayed open for longer than brokers allow a transaction to.
    """
    written = kept_offsets(settings, [topic], "read_uncommitted")[topic]
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        kept = kept_offsets(settings, [topic])[topic]
        still_open = {number for number, (_, end) in written.items() if kept[number][1] < end}
        if not still_open or time.monotonic() > deadline:
            return kept, still_open
        time.sleep(LOOK_EVERY_SECONDS)


def oldest_canonical(
    spark: SparkSession, settings: Settings, topic: str, held: Mapping[int, int], kept: Kept
) -> dict[int, datetime]:
    """By partition of a canonical topic the earliest arrival of records beyond the offsets held.

    Absent where there are none. kept: as stable_offsets() has it.
    """
    behind = {
        number: held.get(number, 0)
        for number, (_, end) in kept.items()
        if held.get(number, 0) < end
    }
    lost = {number: NOTHING for number, offset in behind.items() if offset < kept[number][0]}
    starting = {number: offset for number, offset in behind.items() if number not in lost}
    if not starting:
        return lost
    ending = {number: kept[number][1] for number in starting}
    kafka = committed_records(spark, settings, {topic: starting}, {topic: ending})
    # What cannot be read says nothing of its arrival but when it came here.
    received_at = F.coalesce(
        F.get_json_object("value", "$.received_at").try_cast("timestamp"), "committed_at"
    )
    arrival = F.greatest(F.least(received_at, "committed_at"), F.timestamp_millis(F.lit(0)))
    waiting = canonical_records(kafka).select("partition", F.unix_millis(arrival).alias("arrival"))
    oldest = waiting.groupBy("partition").agg(F.min("arrival").alias("oldest")).collect()
    return lost | {row["partition"]: from_millis(row["oldest"]) for row in oldest}
