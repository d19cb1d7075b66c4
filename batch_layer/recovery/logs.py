"""New logs that go on at the offsets where the lost ones ended.

A topic that was created again begins at offset 0. All layers order and count records by their
offsets, so the new log is filled with empty records up to the offset that the master expects next,
and these are deleted at once: from then on it looks like a log of which retention has deleted the
beginning. No offset of a partition ever names two records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from batch_layer.master.extent import MasterExtent
from batch_layer.master.positions import BoundsByTopic, read_bounds_by_topic
from runtime.connect import kafka_admin, kafka_producer
from runtime.kafka.log_identity import RecordFingerprint, read_fingerprints, read_topic_ids
from runtime.kafka.offsets import Offsets
from runtime.kafka.producer import BlockingProducer
from runtime.kafka.reader import RecordPlace, read_until
from runtime.kafka.topics import Bounds, PartitionId
from tally.config.settings import Settings
from tally.errors import StackError

_SECONDS = 60.0
# Empty records are sent in batches of a few kilobytes each.
_FILLER_OPTIONS = {
    "compression.type": "zstd",
    "linger.ms": 50,
    "batch.num.messages": 100_000,
    "batch.size": 6_000_000,
    "message.max.bytes": 6_000_000,
    "queue.buffering.max.messages": 1_000_000,
}
_FILLERS_AT_ONCE = 100_000


@dataclass(frozen=True)
class ContinuedLog:
    """A partition whose new log goes on at `start`; `resent`: records it had below, sent again."""

    topic: str
    partition: int
    start: int
    resent: int


def find_other_logs(settings: Settings, extent: MasterExtent) -> list[str]:
    """The topics whose log is not the one that the master's records came from.

    They were created again, or cut, or cut and written to again. Raises KafkaException, StackError.
    """
    topics = [*extent.topic_ids]
    # Read before the bounds: a record deleted in between is then known to be gone.
    found = read_fingerprints(settings, extent.last_record_places())
    bounds = read_bounds_by_topic(settings, topics, "read_uncommitted")
    ids = read_topic_ids(settings, topics)
    return [
        topic
        for topic in topics
        if ids[topic] != extent.topic_ids[topic]
        or _ends_early(extent.until[topic], bounds[topic])
        or _has_other_records(extent, topic, bounds, found)
    ]


def _ends_early(until: Offsets, bounds: Mapping[int, Bounds]) -> bool:
    return any(bounds[number].end < offset for number, offset in until.items())


def find_short_logs(settings: Settings, ends: Mapping[PartitionId, int]) -> dict[PartitionId, int]:
    """Of these end offsets of raw topics' partitions, those that their logs have not reached.

    Raises KafkaException.
    """
    topics = sorted({topic for topic, _ in ends})
    bounds = read_bounds_by_topic(settings, topics, "read_uncommitted")
    return {
        (topic, number): end
        for (topic, number), end in ends.items()
        if bounds[topic][number].end < end
    }


def _has_other_records(
    extent: MasterExtent,
    topic: str,
    bounds: BoundsByTopic,
    found: Mapping[RecordPlace, RecordFingerprint | None],
) -> bool:
    # A record that retention has deleted says nothing.
    known = extent.fingerprints.get(topic, {})
    kept = [
        (topic, number, last)
        for number, last in known.items()
        if bounds[topic][number].earliest <= last.offset
    ]
    return any(found[topic, number, last.offset] != last for topic, number, last in kept)


def continue_logs(settings: Settings, starts: Mapping[PartitionId, int]) -> Sequence[ContinuedLog]:
    """Let each partition go on at its start, as if retention had deleted what lies below.

    Records that its new log has below are sent again behind the start. Nothing else may write to
    the partitions meanwhile. Raises StackError when something does, or the brokers do not answer.
    """
    topics = sorted({topic for topic, _ in starts})
    bounds = read_bounds_by_topic(settings, topics, "read_uncommitted")
    admin, continued = kafka_admin(settings), list[ContinuedLog]()
    for (topic, partition), start in sorted(starts.items()):
        place, end = (topic, partition), bounds[topic][partition].end
        _fill(settings, place, start - end)
        resent = _resend(settings, place, min(start, end))
        _refuse_other_writers(settings, place, max(start, end) + resent)
        _delete_below(admin, place, start)
        continued.append(ContinuedLog(topic, partition, start, resent))
    return continued


def _fill(settings: Settings, place: PartitionId, count: int) -> None:
    """Send so many empty records to the partition."""
    if count <= 0:
        return
    topic, partition = place
    failed: list[Any] = []

    def note(error: Any, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = kafka_producer(settings, {**_FILLER_OPTIONS, "delivery.report.only.error": True})
    while count and not failed:
        at_once = min(count, _FILLERS_AT_ONCE)
        empty = [dict[str, Any]() for _ in range(at_once)]
        taken = producer.produce_batch(topic, empty, partition, on_delivery=note)
        count -= taken
        producer.poll(0 if taken else 0.1)
    if producer.flush(_SECONDS) or failed:
        reason = failed[0].str() if failed else f"no answer in {_SECONDS:.0f} s"
        raise StackError(f"topic {topic} partition {partition}: not filled ({reason}); try again")


def _resend(settings: Settings, place: PartitionId, until: int) -> int:
    """Send the committed records below the offset once more; return how many they were."""
    topic, partition = place
    sender = BlockingProducer(kafka_producer(settings), _SECONDS)
    count = 0
    for record in read_until(settings, place, until) if until else ():
        # A filler of an earlier attempt.
        if record.value() is None and record.key() is None:
            continue
        headers = cast(list[tuple[str, bytes]], record.headers() or [])
        sender.send(topic, record.value(), record.key(), partition, headers)
        count += 1
    sender.flush(f"topic {topic} partition {partition}", "look into the broker's log, try again")
    return count


def _refuse_other_writers(settings: Settings, place: PartitionId, expected: int) -> None:
    topic, partition = place
    end = read_bounds_by_topic(settings, [topic], "read_uncommitted")[topic][partition].end
    if end != expected:
        raise StackError(
            f"topic {topic} partition {partition}: it ends at {end}, not at {expected}: something"
            " else writes to it; stop the services (`tally down`) and try again"
        )


def _delete_below(admin: AdminClient, place: PartitionId, start: int) -> None:
    [outcome] = admin.delete_records([TopicPartition(*place, start)]).values()
    try:
        outcome.result(_SECONDS)
    except KafkaException as error:
        raise StackError(
            f"topic {place[0]} partition {place[1]}: its fillers were not deleted"
            f" ({error.args[0].str()}); try again"
        ) from error
