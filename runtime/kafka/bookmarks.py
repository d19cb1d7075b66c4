"""Bookmarks beside committed positions, and the check whether reading may resume there."""

from dataclasses import dataclass

import msgspec

from runtime.kafka.log_identity import RecordFingerprint


class PositionMetadata(msgspec.Struct, frozen=True):
    """Metadata of a committed position.

    It holds the topic's id, and the last record that was read, None before the first.
    """

    topic_id: str
    last: RecordFingerprint | None = None

    @classmethod
    def read(cls, metadata: str | None) -> "PositionMetadata | None":
        """The bookmark in an offset's metadata.

        None if the metadata is no bookmark (set by hand, or before bookmarks existed).
        """
        try:
            return msgspec.json.decode(metadata or "", type=cls)
        except msgspec.DecodeError:
            return None

    @property
    def text(self) -> str:
        """The bookmark as text for the offset's metadata."""
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True)
class LogState:
    """The current state of one partition in Kafka.

    It has the topic's id, the first offset kept, the end, and the record at the bookmark's place.
    """

    topic_id: str
    earliest: int
    end: int
    fingerprint: RecordFingerprint | None = None


class TopicIds(msgspec.Struct, frozen=True):
    """Ids of the topics that a group reads, stored beside a position in another topic.

    They are not stored in the topics themselves, whose positions go when a topic is deleted.
    """

    topic_ids: dict[str, str] = {}

    @classmethod
    def read(cls, metadata: str | None) -> "TopicIds":
        """The ids in an offset's metadata; empty if it has none."""
        try:
            return msgspec.json.decode(metadata or "{}", type=cls)
        except msgspec.DecodeError:
            return cls()

    @property
    def text(self) -> str:
        """The ids as text for the offset's metadata."""
        return msgspec.json.encode(self).decode()


def loss_reason(position: int, bookmark: PositionMetadata | None, log: LogState) -> str | None:
    """The reason why reading must not resume at the position; None if it may."""
    # The topic's id is compared first: the offsets of another log are meaningless here.
    if bookmark is not None and bookmark.topic_id != log.topic_id:
        return "the topic was deleted and created again since it was read"
    if log.end < position:
        return f"it was read up to offset {position} and ends at {log.end}: the log was cut"
    if log.earliest > position:
        return f"offsets {position} to {log.earliest - 1} were deleted before they were read"
    # Matching offsets prove nothing: after a power failure a broker assigns the lost ones again.
    if bookmark is not None and bookmark.last is not None and bookmark.last != log.fingerprint:
        return (
            f"the record at offset {bookmark.last.offset} is not the one that was read there: the"
            " log was cut, and has grown again"
        )
    return None


def recovery_advice(topic: str, partition: int) -> str:
    """The advice of an error about lost records: how to go on."""
    return (
        f"restore the topic, or `tally gaps accept {topic} {partition}` notes the loss for good and"
        " lets the job go on"
    )
