"""Offsets by partition and by topic, and their JSON, whose keys must be text."""

import json
from collections.abc import Mapping
from typing import TypeAlias, TypeVar

# The keys are the partition, and the topic and partition.
Offsets: TypeAlias = Mapping[int, int]
TopicOffsets: TypeAlias = Mapping[str, Offsets]
Value = TypeVar("Value")


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
