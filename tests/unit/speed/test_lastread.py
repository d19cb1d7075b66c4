import json
from pathlib import Path
from typing import Any

import pytest

from speed_layer import checkpoint_files
from speed_layer.checkpoint_files import (
    IDENTITY_FILE,
    TopicCheckpoint,
    TopicIdentity,
    load_topic_identities,
)
from speed_layer.state.records import NO_CRC, PartitionReport
from tally.config.settings import Settings

REPORTS = [
    PartitionReport("sales", 0, rows=1, offset=12, crc=7),
    PartitionReport("sales", 2, rows=0, offset=3, crc=9),
    PartitionReport("sales", 3, rows=0),
    PartitionReport("traffic", 0, 1, 5, 5),
]


def test_partition_without_a_value_leaves_no_mark() -> None:
    assert [report.crc == NO_CRC for report in REPORTS] == [False, False, True, False]


def test_new_folder_remembers_nothing(tmp_path: Path) -> None:
    assert load_topic_identities(tmp_path) == {}


def test_memory_grows_by_partition_and_is_read_as_it_was_kept(tmp_path: Path) -> None:
    memory = TopicCheckpoint(
        tmp_path / "views",
        {
            "sales": TopicIdentity("id", {0: (1, 1), 1: (5, 5)}),
            "traffic": TopicIdentity("other", {}),
        },
    )

    memory.note(REPORTS)

    sales, traffic = (
        TopicIdentity("id", {0: (12, 7), 1: (5, 5), 2: (3, 9)}),
        TopicIdentity("other", {0: (5, 5)}),
    )
    assert load_topic_identities(tmp_path / "views") == {
        "sales": sales,
        "traffic": traffic,
    }
    assert [file.name for file in (tmp_path / "views").iterdir()] == [IDENTITY_FILE]


class Unvalued:
    """A Kafka message without a value: its length is that of its value, so it is false."""

    def __len__(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def value(self) -> bytes | None:
        return None


def test_record_without_a_value_is_the_one_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_records(settings: Settings, places: list[Any], seconds: float) -> dict[Any, Any]:
        return {place: Unvalued() for place in places}

    monkeypatch.setattr(checkpoint_files, "first_records", first_records)

    assert checkpoint_files._crc_at(Settings.load({}), ("sales", 0, 7)) == 0
    assert checkpoint_files._crc_at(Settings.load({}), ("sales", 0, 6)) is None


def test_memory_is_kept_before_anything_is_read(tmp_path: Path) -> None:
    TopicCheckpoint(tmp_path, {"sales": TopicIdentity("id", {})})

    assert json.loads((tmp_path / IDENTITY_FILE).read_text()) == {
        "sales": {"topic_id": "id", "last": {}}
    }
