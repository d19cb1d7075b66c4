"""Where the ingest goes on: what the master dataset holds, beside what Kafka keeps."""

from collections.abc import Iterable, Mapping

from batch_layer.master.extent import MasterExtent
from runtime.connect import kafka_consumer
from runtime.kafka.log_identity import RecordFingerprint
from runtime.kafka.offsets import TopicOffsets
from runtime.kafka.reader import RecordPlace
from runtime.kafka.topics import Bounds, read_ends, read_topic_bounds
from tally.config.settings import Settings
from tally.errors import DataLoss

TIMEOUT_SECONDS = 30.0
_RECOVER = (
    "its offsets would repeat those of the master dataset;"
    " `tally recover` lets the log go on behind them"
)
BoundsByTopic = Mapping[str, Mapping[int, Bounds]]


def offset_at(offsets: TopicOffsets, topic: str, partition: int) -> int:
    """The offset of the partition; 0 if it has none."""
    return offsets.get(topic, {}).get(partition, 0)


def read_bounds_by_topic(
    settings: Settings, topics: Iterable[str], isolation: str = "read_committed"
) -> dict[str, dict[int, Bounds]]:
    """The first offset that Kafka still keeps and the last stable one, by topic and partition.

    The last stable offset is the first one not readable yet. With isolation `read_uncommitted` the
    end is that of the partition, open transactions included.
    """
    overrides = {"isolation.level": isolation}
    with kafka_consumer(settings, "master-offsets", overrides) as consumer:
        return {topic: read_topic_bounds(consumer, topic, TIMEOUT_SECONDS) for topic in topics}


def stable_ends(settings: Settings, topics: Iterable[str]) -> TopicOffsets:
    """The first offset not readable yet, by topic and partition. Raises KafkaException."""
    with kafka_consumer(settings, "master-offsets") as consumer:
        return read_ends(consumer, topics, TIMEOUT_SECONDS)


def starting_offsets(
    extent: MasterExtent, ids: Mapping[str, str], retained: BoundsByTopic
) -> dict[str, dict[int, int]]:
    """The offset to append next, by topic and partition; 0 where nothing is held.

    Raises DataLoss when Kafka no longer keeps it, or when the topic is not the one that the table's
    records came from.
    """
    starting: dict[str, dict[int, int]] = {}
    for topic, partitions in retained.items():
        # A re-created topic begins at 0 again and may have grown beyond the old end: only its id
        # shows the difference.
        if extent.topic_ids.get(topic, ids[topic]) != ids[topic]:
            raise DataLoss(f"topic {topic} was deleted and created again: {_RECOVER}")
        starting[topic] = {}
        for number, (earliest, end) in partitions.items():
            # 0 where nothing is held, and not the first offset kept: that would silently skip
            # records that retention has deleted.
            offset = offset_at(extent.until, topic, number)
            if not earliest <= offset <= end:
                way_out = (
                    f"`tally gaps accept {topic} {number}` notes that for good"
                    if offset < earliest
                    else _RECOVER
                )
                raise DataLoss(
                    f"topic {topic} partition {number}: the master dataset goes on at offset"
                    f" {offset}, Kafka keeps {earliest} to {end}; records are missing, restore them"
                    f" from a backup of the topic or of the master dataset; {way_out}"
                )
            starting[topic][number] = offset
    return starting


def refuse_other_log(
    extent: MasterExtent,
    retained: BoundsByTopic,
    found: Mapping[RecordPlace, RecordFingerprint | None],
) -> None:
    """Raise DataLoss unless the last record held of each partition is the one in Kafka.

    A difference means that the log was cut and has grown again. A record that Kafka no longer keeps
    is not compared.
    """
    # A single broker acknowledges before its disk has the record; the offsets of records lost in
    # a power failure are assigned again.
    for topic, number, last in extent.last_fingerprints():
        earliest, _ = retained[topic][number]
        place = topic, number, last.offset
        if last.offset >= earliest and found[place] != last:
            raise DataLoss(
                f"topic {topic} partition {number}: the record at offset {last.offset} is not the"
                " one that the master dataset holds,"
                f" the log was cut and has grown again: {_RECOVER}"
            )
