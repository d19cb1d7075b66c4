"""What the verification of the master dataset finds."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from batch_layer.master.positions import MasterExtent
from batch_layer.master.verify import VerifiedPartition, find_regressions, verify
from tally.errors import TallyError

IDS = {"sales": "id"}


def append(path: Path, offsets: list[int], until: int) -> None:
    """One append of sales records to partition 0, as the ingest notes it."""
    rows = pa.table(
        {
            "source": ["sales"] * len(offsets),
            "partition": pa.array([0] * len(offsets), pa.int32()),
            "offset": offsets,
        }
    )
    note = {"userMetadata": json.dumps({"topic_ids": IDS, "until": {"sales": {"0": until}}})}
    write_deltalake(
        str(path), rows, mode="append", commit_properties=CommitProperties(custom_metadata=note)
    )


def test_appends_that_follow_one_another_are_well(tmp_path: Path) -> None:
    append(tmp_path / "master", [0, 1, 3], 4)
    append(tmp_path / "master", [4, 5], 7)

    found = verify(tmp_path / "master")

    assert (found.ok, found.version, found.lines, found.steps_back) == (
        True,
        1,
        [VerifiedPartition("sales", 0, 5, 5, 0, 5, 7)],
        [],
    )


def test_record_that_is_there_twice_is_found(tmp_path: Path) -> None:
    append(tmp_path / "master", [0, 1], 2)
    append(tmp_path / "master", [1, 2], 3)

    found = verify(tmp_path / "master")

    assert (found.ok, found.lines) == (False, [VerifiedPartition("sales", 0, 4, 3, 0, 2, 3)])


def test_record_beyond_the_claimed_end_is_found(tmp_path: Path) -> None:
    append(tmp_path / "master", [0, 1, 2], 2)

    assert verify(tmp_path / "master").ok is False


def test_append_that_goes_back_and_topic_made_anew_are_found() -> None:
    appends = [
        MasterExtent(IDS, {"sales": {0: 5, 1: 9}}),
        MasterExtent({"sales": "other"}, {"sales": {0: 4, 1: 9}}),
    ]

    found = [*find_regressions(appends)]

    assert found == [
        "topic sales was deleted and created again",
        "topic sales partition 0 goes back below offset 5",
    ]


def test_missing_master_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TallyError, match="tally up master"):
        verify(tmp_path / "master")
