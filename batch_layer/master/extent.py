"""What the master dataset holds of each topic, as its Delta log states it.

Every append writes it as transaction identifiers (`txn` actions: a name and a 64-bit number), in
the commit of its records. Checkpoints keep these, while the metadata of a commit goes with the log
file that it stands in; and commits of maintenance leave them as they are.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from deltalake import DeltaTable, Transaction

from runtime.kafka.log_identity import SHA256_DIGITS, RecordFingerprint
from runtime.kafka.offsets import TopicOffsets
from runtime.kafka.reader import RecordPlace
from runtime.registry.sources import FAMILIES

# Every append has it: of two that have seen the same version the second one fails.
WRITER = "tally-master-ingest"
# A topic's id has 128 bits, in standard base64 as librdkafka writes it; each number holds so many
# bytes of it, and is never negative.
_ID_BYTES = (6, 6, 4)


@dataclass(frozen=True)
class MasterExtent:
    """The id of each topic; the first offset not held and last record of each partition."""

    topic_ids: Mapping[str, str]
    until: TopicOffsets
    fingerprints: Mapping[str, Mapping[int, RecordFingerprint]] = field(default_factory=dict)

    def transactions(self, before: "MasterExtent", version: int) -> list[Transaction]:
        """What an append that leads here from `before` writes; version: that of its commit."""
        known = dict(before._numbers())
        changed = set(self._numbers()) - known.items()
        named = [Transaction(name, number) for name, number in sorted(changed)]
        return [Transaction(WRITER, version), *named]

    def _numbers(self) -> Iterator[tuple[str, int]]:
        for topic, topic_id in self.topic_ids.items():
            rest = b64decode(f"{topic_id}==", validate=True)
            for place, size in enumerate(_ID_BYTES):
                yield f"{topic}/id/{place}", int.from_bytes(rest[:size])
                rest = rest[size:]
        for topic, offsets in self.until.items():
            for number, offset in offsets.items():
                yield f"{topic}/{number}/until", offset
        for topic, number, last in self.last_fingerprints():
            yield f"{topic}/{number}/last_offset", last.offset
            yield f"{topic}/{number}/last_timestamp_ms", last.timestamp_ms
            yield f"{topic}/{number}/last_sha256", int(last.sha256, 16)

    def last_fingerprints(self) -> Iterator[tuple[str, int, RecordFingerprint]]:
        """The place (topic, partition) and the fingerprint of each partition's last record."""
        for topic, by_partition in self.fingerprints.items():
            for number, last in by_partition.items():
                yield topic, number, last

    def last_record_places(self) -> list[RecordPlace]:
        """The place in Kafka (topic, partition, offset) of each partition's last record."""
        return [(topic, number, last.offset) for topic, number, last in self.last_fingerprints()]


EMPTY_EXTENT = MasterExtent({}, {})


def read_extent(path: Path, topics: Iterable[str] | None = None) -> MasterExtent:
    """The extent of the newest version; EMPTY_EXTENT where there is no table."""
    if not DeltaTable.is_deltatable(str(path)):
        return EMPTY_EXTENT
    return load_extent(DeltaTable(str(path)), topics)


def load_extent(table: DeltaTable, topics: Iterable[str] | None = None) -> MasterExtent:
    """The extent of the table at the version that it is open at.

    topics: those that are asked for; default: the canonical topics of all families.
    """
    names = [family.topic for family in FAMILIES.values()] if topics is None else topics
    # A topic without an id has no append yet.
    ids = {topic: topic_id for topic in names if (topic_id := _topic_id(table, topic))}
    until = {topic: dict(_offsets(table, topic)) for topic in ids}
    fingerprints = {topic: dict(_fingerprints(table, topic, until[topic])) for topic in ids}
    return MasterExtent(ids, until, fingerprints)


def _topic_id(table: DeltaTable, topic: str) -> str | None:
    numbers = [table.transaction_version(f"{topic}/id/{place}") for place in range(len(_ID_BYTES))]
    parts = [
        number.to_bytes(size)
        for number, size in zip(numbers, _ID_BYTES, strict=True)
        if number is not None
    ]
    return b64encode(b"".join(parts)).decode().rstrip("=") or None


def _offsets(table: DeltaTable, topic: str) -> Iterator[tuple[int, int]]:
    # The first append of a topic writes all of its partitions, which are numbered from 0.
    for number in count():
        offset = table.transaction_version(f"{topic}/{number}/until")
        if offset is None:
            return
        yield number, offset


def read_log_starts(table: DeltaTable, topic: str, partition: int) -> list[int]:
    """The offset at which each log of the partition goes on after the one before, ascending.

    Empty as long as the records come from one log.
    """
    starts = list[int]()
    # The first log is number 0, and begins at offset 0.
    for number in count(1):
        start = table.transaction_version(_log_name(topic, partition, number))
        if start is None:
            break
        starts.append(start)
    return starts


def log_transaction(topic: str, partition: int, number: int, start: int) -> Transaction:
    """What a commit says of a partition whose log of this number goes on at `start`."""
    return Transaction(_log_name(topic, partition, number), start)


def _log_name(topic: str, partition: int, number: int) -> str:
    return f"{topic}/{partition}/log/{number}"


def _fingerprints(
    table: DeltaTable, topic: str, partitions: Iterable[int]
) -> Iterator[tuple[int, RecordFingerprint]]:
    for number in partitions:
        offset, timestamp, digest = (
            table.transaction_version(f"{topic}/{number}/last_{name}")
            for name in ("offset", "timestamp_ms", "sha256")
        )
        if offset is not None and timestamp is not None and digest is not None:
            yield number, RecordFingerprint(offset, timestamp, f"{digest:0{SHA256_DIGITS}x}")
