"""JSON has no numbers as names: partitions come back as numbers."""

import json

from runtime.offsets import numbered, offsets_by_topic, text_of

OFFSETS = {"sales": {0: 5, 11: 7}, "traffic": {0: 0}}


def test_offsets_are_read_as_they_were_told() -> None:
    assert offsets_by_topic(json.loads(text_of(OFFSETS))) == OFFSETS


def test_what_is_kept_by_partition_keeps_its_values() -> None:
    assert numbered({"0": (1, 2), "11": (3, 4)}) == {0: (1, 2), 11: (3, 4)}
