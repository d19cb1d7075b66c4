import json
from pathlib import Path

from speed_layer.lastread import FILE, Memory, Remembered, kept_memory, marks_of

REPORT = {"observedMetrics": {"last_read": {"offset_0": 12, "crc32_0": 7, "offset_2": 3, "crc32_2": 9, "offset_3": None}}}


def test_marks_are_those_of_the_partitions_that_were_read() -> None:
    assert marks_of(REPORT) == {0: (12, 7), 2: (3, 9)}


def test_report_that_has_observed_nothing_has_no_marks() -> None:
    assert marks_of({}) == {}


def test_checkpoint_of_an_earlier_version_remembers_nothing(tmp_path: Path) -> None:
    assert kept_memory(tmp_path) is None


def test_memory_grows_by_partition_and_is_read_as_it_was_kept(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "sales", Remembered("id", {0: (1, 1), 1: (5, 5)}))

    memory.note(REPORT)

    assert kept_memory(tmp_path / "sales") == Remembered("id", {0: (12, 7), 1: (5, 5), 2: (3, 9)})
    assert [file.name for file in (tmp_path / "sales").iterdir()] == [FILE]


def test_memory_is_kept_before_anything_is_read(tmp_path: Path) -> None:
    Memory(tmp_path, Remembered("id", {}))

    assert json.loads((tmp_path / FILE).read_text()) == {"topic_id": "id", "last": {}}
