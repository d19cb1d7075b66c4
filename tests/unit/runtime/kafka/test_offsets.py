"""JSON has no numbers as names: partitions come back as numbers."""

import json

from runtime.kafka.offsets import format_offsets, parse_offsets, parse_partition_keys

OFFSETS = {"sales": {0: 5, 11: 7}, "traffic": {0: 0}}


def test_offsets_are_read_as_they_were_told() -> None:
    assert parse_offsets(json.loads(format_offsets(OFFSETS))) == OFFSETS


def test_what_is_kept_by_partition_keeps_its_values() -> None:
    assert parse_partition_keys({"0": (1, 2), "11": (3, 4)}) == {0: (1, 2), 11: (3, 4)}
