import json
from pathlib import Path

import pytest

from runtime.checkpoint import committed_position, has_begun
from speed_layer.source import Retained, refuse_data_loss
from tally.errors import DataLoss, TallyError

HELD = Retained(earliest={0: 5}, end={0: 9})


def write_offsets(checkpoint: Path, batch: int, until: int) -> None:
    """One entry of Spark's offset log, as Spark 4.1 writes it."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    metadata = json.dumps({"batchWatermarkMs": 0, "conf": {}})
    (checkpoint / "offsets" / str(batch)).write_text(
        f"v1\n{metadata}\n" + json.dumps({"sales": {"0": until}, "traffic": {"0": 3}})
    )


def write_commit(checkpoint: Path, batch: int) -> None:
    """One entry of Spark's commit log; its content does not matter here."""
    (checkpoint / "commits").mkdir(parents=True, exist_ok=True)
    (checkpoint / "commits" / str(batch)).write_text("v2\n{}")


def test_position_is_that_of_the_last_committed_batch(tmp_path: Path) -> None:
    for batch, until in ((9, 70), (10, 80), (11, 90)):
        write_offsets(tmp_path, batch, until)
    for batch in (9, 10):
        write_commit(tmp_path, batch)

    assert committed_position(tmp_path) == {"sales": {0: 80}, "traffic": {0: 3}}


def test_planned_batch_without_commit_has_begun_and_has_no_position(tmp_path: Path) -> None:
    write_offsets(tmp_path, 0, 70)

    assert (has_begun(tmp_path), committed_position(tmp_path)) == (True, None)


def test_new_folder_has_not_begun(tmp_path: Path) -> None:
    assert (has_begun(tmp_path), committed_position(tmp_path)) == (False, None)


def test_truncated_offset_file_is_told_with_what_to_do(tmp_path: Path) -> None:
    write_offsets(tmp_path, 0, 70)
    write_commit(tmp_path, 0)
    (tmp_path / "offsets" / "0").write_text("")

    with pytest.raises(TallyError, match="restore the whole folder, or move it away"):
        committed_position(tmp_path)


@pytest.mark.parametrize("needed", [4, 10])
def test_offsets_that_the_topic_does_not_hold_are_data_loss(needed: int) -> None:
    with pytest.raises(
        DataLoss,
        match=(
            rf"goes on at offset {needed}, the broker holds 5 to 9; move the checkpoint folder away"
        ),
    ):
        refuse_data_loss({0: needed}, "sales", HELD)


@pytest.mark.parametrize("needed", [5, 9])
def test_offsets_that_the_topic_holds_are_not_data_loss(needed: int) -> None:
    refuse_data_loss({0: needed}, "sales", HELD)
