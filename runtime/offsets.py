"""Offsets by partition and by topic, and their JSON, which has no numbers as names."""

import json
from collections.abc import Mapping
from typing import TypeAlias, TypeVar

# By partition, and by topic and partition.
Offsets: TypeAlias = Mapping[int, int]
TopicOffsets: TypeAlias = Mapping[str, Offsets]
Value = TypeVar("Value")


def numbered(kept: Mapping[str, Value]) -> dict[int, Value]:
    """What JSON keeps by partition, such as offsets, by the number of the partition.

    >>> numbered({"0": 5, "11": 7})
    {0: 5, 11: 7}
    """
    return {int(partition): value for partition, value in kept.items()}


def offsets_by_topic(told: Mapping[str, Mapping[str, int]]) -> TopicOffsets:
    """Offsets as Spark and the notes of our jobs tell them."""
    return {topic: numbered(places) for topic, places in told.items()}


def text_of(offsets: TopicOffsets) -> str:
    """Offsets as Spark is told them: one JSON object."""
    return json.dumps({topic: dict(places) for topic, places in offsets.items()})
