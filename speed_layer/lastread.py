"""What a query remembers of its topic: enough to notice that the topic was made anew, or cut and grown again."""

import json
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, TopicPartition
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from runtime.marks import topic_ids
from speed_layer.checkpoint import keep_whole
from speed_layer.source import TIMEOUT_SECONDS, Retained
from tally.connect import kafka_consumer
from tally.errors import DataLoss, StackError
from tally.settings import Settings

FILE = "tally-topic.json"
LAST_READ = "last_read"
Mark = tuple[int, int]


@dataclass(frozen=True)
class Remembered:
    """The topic's id, and (offset, CRC-32) of the last record read of each partition; a null value leaves no mark."""

    topic_id: str
    last: Mapping[int, Mark]


def with_marks(records: DataFrame, partitions: int) -> DataFrame:
    """The records, observed: offset and CRC-32 of the last value of each partition (observed metrics).

    In: canonical records of a stream: a partition's records are read by one task, in order.
    """
    crc = F.crc32(F.col("value").cast("binary"))
    return records.observe(LAST_READ, *(mark for number in range(partitions) for mark in _marks(number, crc)))


def _marks(number: int, crc: Column) -> tuple[Column, Column]:
    is_its = (F.col("partition") == number) & F.col("value").isNotNull()
    offset, checked = (F.last(F.when(is_its, one), ignorenulls=True) for one in (F.col("offset"), crc))
    return offset.alias(f"offset_{number}"), checked.alias(f"crc32_{number}")


def marks_of(report: Mapping[str, Any]) -> dict[int, Mark]:
    """The marks of one micro-batch's report, by partition; absent where it has read none."""
    observed = report.get("observedMetrics", {}).get(LAST_READ, {})
    numbers = [int(name.removeprefix("offset_")) for name, value in observed.items() if name.startswith("offset_") and value is not None]
    return {number: (observed[f"offset_{number}"], observed[f"crc32_{number}"]) for number in numbers}


def kept_memory(checkpoint: Path) -> Remembered | None:
    """What lies beside the checkpoint; None if nothing does: an earlier version kept none."""
    file = checkpoint / FILE
    if not file.is_file():
        return None
    kept = json.loads(file.read_text("utf-8"))
    return Remembered(kept["topic_id"], {int(number): (offset, crc) for number, (offset, crc) in kept["last"].items()})


def keep_memory(checkpoint: Path, memory: Remembered) -> None:
    """It lies beside the checkpoint, whole or as it was before."""
    text = json.dumps({"topic_id": memory.topic_id, "last": dict(memory.last)})
    keep_whole(checkpoint / FILE, text)


class Memory:
    """What one running query remembers; grows with its reports."""

    def __init__(self, checkpoint: Path, remembered: Remembered) -> None:
        self._checkpoint, self._remembered = checkpoint, remembered
        keep_memory(checkpoint, remembered)

    def note(self, report: Mapping[str, Any]) -> None:
        """What the micro-batch of the report has read last is kept."""
        if marks := marks_of(report):
            self._remembered = replace(self._remembered, last={**self._remembered.last, **marks})
            keep_memory(self._checkpoint, self._remembered)


def checked_memory(settings: Settings, topic: str, checkpoint: Path, held: Retained) -> Memory:
    """The memory of a query that may go on. Raises DataLoss when the topic is not the one that it has read."""
    now = topic_ids(settings, [topic])[topic]
    kept = kept_memory(checkpoint) or Remembered(now, {})
    if kept.topic_id != now:
        raise DataLoss(
            f"topic {topic}: it was made anew, its id is {now}, the query has read {kept.topic_id}; {_WAY_OUT.format(checkpoint)}"
        )
    for partition, (offset, crc) in sorted(kept.last.items()):
        if held.earliest[partition] <= offset and _crc_at(settings, TopicPartition(topic, partition, offset)) != crc:
            raise DataLoss(
                f"topic {topic} partition {partition}: at offset {offset} lies another record than the query has read, the log was "
                f"cut and has grown again; {_WAY_OUT.format(checkpoint)}"
            )
    return Memory(checkpoint, kept)


_WAY_OUT = "move the checkpoint folder {} away: the query then begins anew with a floor, batch serves what lies below"


def _crc_at(settings: Settings, place: TopicPartition) -> int | None:
    """CRC-32 of the committed record at this very offset; None if there is none."""
    consumer = kafka_consumer(settings, "speed-offsets", {"enable.partition.eof": True})
    deadline = time.monotonic() + TIMEOUT_SECONDS
    try:
        consumer.assign([place])
        while time.monotonic() < deadline:
            if (message := consumer.poll(1.0)) is None:
                continue
            error = message.error()
            if error is None:
                return zlib.crc32(message.value() or b"") if message.offset() == place.offset else None
            if error.code() == KafkaError._PARTITION_EOF:
                return None
    finally:
        consumer.close()
    raise StackError(
        f"topic {place.topic} partition {place.partition}: no record in {TIMEOUT_SECONDS:.0f} s; `tally doctor` looks for the cause"
    )
