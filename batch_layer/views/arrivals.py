"""What has arrived and is in no generation yet: the oldest such record bounds what a generation may claim to cover.

A record waits in one of two places: in the raw topic, before the normaliser, or in the canonical topic, before the master ingest.
"""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tally.connect import NORMALISER_GROUP, kafka_consumer
from tally.errors import TallyError
from tally.frames import canonical_records
from tally.instants import from_millis, parse_instant
from tally.settings import Settings

TIMEOUT_SECONDS = 30.0
# Of records that Kafka no longer keeps nobody knows when they arrived: nothing is claimed.
NOTHING = datetime.fromtimestamp(0, UTC)


def oldest_raw(settings: Settings, topic: str) -> datetime | None:
    """Arrival of the oldest record of a raw topic that the normaliser has not passed; None if there is none.

    The ends are read before the normaliser's positions: what is not found here, and had arrived before this call, is in the
    canonical topic or among the dead letters. Raises TallyError when Kafka does not answer.
    """
    consumer = kafka_consumer(settings, NORMALISER_GROUP, {"enable.partition.eof": True})
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.list_topics(topic, TIMEOUT_SECONDS).topics[topic].partitions]
        kept = [consumer.get_watermark_offsets(part, timeout=TIMEOUT_SECONDS) for part in partitions]
        reached = [max(0, part.offset) for part in consumer.committed(partitions, TIMEOUT_SECONDS)]
        waiting = zip(partitions, kept, reached, strict=True)
        arrivals = [_arrival(consumer, part, at, low) for part, (low, end), at in waiting if at < end]
    finally:
        consumer.close()
    return min((arrival for arrival in arrivals if arrival is not None), default=None)


def _arrival(consumer: Consumer, part: TopicPartition, offset: int, low: int) -> datetime | None:
    """Broker's timestamp of the first record from the offset on; None if only markers of transactions follow."""
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
    raise TallyError(f"topic {part.topic}, partition {part.partition}: no record in {TIMEOUT_SECONDS:.0f} s; run the rebuild again")


def oldest_canonical(
    spark: SparkSession, settings: Settings, topic: str, held: Mapping[int, int], kept: Mapping[int, tuple[int, int]]
) -> dict[int, datetime]:
    """By partition of a canonical topic the earliest arrival of the records beyond the offsets held; absent where there are none.

    kept: first offset that Kafka keeps, and the end, by partition.
    """
    behind = {number: held.get(number, 0) for number, (_, end) in kept.items() if held.get(number, 0) < end}
    lost = {number: NOTHING for number, offset in behind.items() if offset < kept[number][0]}
    starting = {str(number): offset for number, offset in behind.items() if number not in lost}
    if not starting:
        return lost
    kafka = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka)
        .option("assign", json.dumps({topic: [int(number) for number in starting]}))
        .option("startingOffsets", json.dumps({topic: starting}))
        .option("endingOffsets", json.dumps({topic: {number: kept[int(number)][1] for number in starting}}))
        .option("kafka.isolation.level", "read_committed")
    )
    received_at = F.get_json_object("value", "$.received_at").alias("received_at")
    oldest = canonical_records(kafka.load()).select("partition", received_at).groupBy("partition").agg(F.min("received_at").alias("oldest"))
    return lost | {row["partition"]: parse_instant(row["oldest"], "received_at") for row in oldest.collect()}
