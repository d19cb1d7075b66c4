"""Offsets by partition and by topic: how far is read, and their JSON, whose keys must be text."""

import json
from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeAlias, TypeVar

# The keys are the partition, and the topic and partition.
Offsets: TypeAlias = Mapping[int, int]
TopicOffsets: TypeAlias = Mapping[str, Offsets]
Value = TypeVar("Value")
# A partition's number, or its topic and number.
Place = TypeVar("Place", bound=Hashable)
# An instant, as its barrier's reader has it.
Instant = TypeVar("Instant")


class OffsetBarrier(NamedTuple, Generic[Instant, Place]):
    """The end offsets below which all records lie that had arrived by `at`."""

    at: Instant
    ends: Mapping[Place, int]

    def is_passed(self, read: Mapping[Place, int], unknown: int = 0) -> bool:
        """Whether a reader with these positions has read everything that had arrived by then."""
        return not find_unread(self.ends, read, unknown)


def find_unread(
    ends: Mapping[Place, int], read: Mapping[Place, int], unknown: int = 0
) -> dict[Place, int]:
    """The reader's position in each partition that it has not read up to its end.

    A partition without a position counts as read up to `unknown`.

    >>> find_unread({0: 5, 1: 7, 2: 0, 3: 1}, {0: 5, 1: 6})
    {1: 6, 3: 0}
    """
    positions = {place: read.get(place, unknown) for place in ends}
    return {place: at for place, at in positions.items() if at < ends[place]}


def flatten_offsets(offsets: TopicOffsets) -> dict[tuple[str, int], int]:
    """The offsets by topic and partition, with both in one key."""
    flat: dict[tuple[str, int], int] = {}
    for topic, places in offsets.items():
        flat |= {(topic, number): at for number, at in places.items()}
    return flat


def parse_partition_keys(by_partition: Mapping[str, Value]) -> dict[int, Value]:
    """Values that JSON has by partition, such as offsets, with the partition as a number.

    >>> parse_partition_keys({"0": 5, "11": 7})
    {0: 5, 11: 7}
    """
    return {int(partition): value for partition, value in by_partition.items()}


def parse_offsets(raw: Mapping[str, Mapping[str, int]]) -> TopicOffsets:
    """Offsets by topic and partition, from the JSON of Spark or of a job's notes."""
    return {topic: parse_partition_keys(places) for topic, places in raw.items()}


def format_offsets(offsets: TopicOffsets) -> str:
    """Offsets in the form that Spark takes: one JSON object."""
    return json.dumps({topic: dict(places) for topic, places in offsets.items()})
