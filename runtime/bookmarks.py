"""What lies beside a kept position, and whether it is right to read on there."""

from dataclasses import dataclass

import msgspec

from runtime.marks import Mark


class Bookmark(msgspec.Struct, frozen=True):
    """What is kept beside a committed position.

    The topic's id, and the last record that was read, None before the first.
    """

    topic_id: str
    last: Mark | None = None

    @classmethod
    def read(cls, metadata: str | None) -> "Bookmark | None":
        """The bookmark in an offset's metadata.

        None if it is not one (set by hand, or before there were any).
        """
        try:
            return msgspec.json.decode(metadata or "", type=cls)
        except msgspec.DecodeError:
            return None

    @property
    def text(self) -> str:
        """As it is kept in the offset's metadata."""
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True)
class Log:
    """One partition as it is in Kafka now.

    Its topic's id, first offset kept, end, and the record at the bookmark's place.
    """

    topic_id: str
    earliest: int
    end: int
    found: Mark | None = None


class TopicIds(msgspec.Struct, frozen=True):
    """Ids of the topics that a group reads, kept beside a position in another topic.

    With a deleted topic its positions go too.
    """

    topic_ids: dict[str, str] = {}

    @classmethod
    def read(cls, metadata: str | None) -> "TopicIds":
        """The ids in an offset's metadata; none if there are none."""
        try:
            return msgspec.json.decode(metadata or "{}", type=cls)
        except msgspec.DecodeError:
            return cls()

    @property
    def text(self) -> str:
        """As they are kept in the offset's metadata."""
        return msgspec.json.encode(self).decode()


def what_is_lost(position: int, bookmark: Bookmark | None, log: Log) -> str | None:
    """What is wrong with reading on at the position, None if nothing is."""
    # First: of another log its offsets say nothing.
    if bookmark is not None and bookmark.topic_id != log.topic_id:
        return "the topic was deleted and created anew since it was read"
    if log.end < position:
        return f"it was read up to offset {position} and ends at {log.end}: the log was cut"
    if log.earliest > position:
        return f"offsets {position} to {log.earliest - 1} were deleted before they were read"
    # Offsets that fit prove nothing: after a loss of power a broker gives those out again that it
    # lost.
    if bookmark is not None and bookmark.last is not None and bookmark.last != log.found:
        return (
            f"the record at offset {bookmark.last.offset} is not the one that was read there: the"
            " log was cut, and has grown again"
        )
    return None


def way_out(topic: str, partition: int) -> str:
    """What to do about it."""
    return (
        f"restore the topic, or `tally gaps accept {topic} {partition}` notes the loss for good and"
        " lets the job go on"
    )
