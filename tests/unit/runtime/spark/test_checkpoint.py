"""What a checkpoint says of its query, damaged ones too."""

import json
from pathlib import Path

import pytest

from runtime.spark.checkpoint import (
    has_begun,
    read_committed_position,
    read_planned_end,
    read_planned_start,
)
from tally.errors import TallyError, UnrecoverableError


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

    assert read_committed_position(tmp_path) == {"sales": {0: 80}, "traffic": {0: 3}}


def test_planned_batch_without_commit_has_begun_and_has_no_position(tmp_path: Path) -> None:
    write_offsets(tmp_path, 0, 70)

    assert (has_begun(tmp_path), read_committed_position(tmp_path)) == (True, None)


def test_new_folder_has_not_begun(tmp_path: Path) -> None:
    assert (has_begun(tmp_path), read_committed_position(tmp_path)) == (False, None)


def test_truncated_offset_file_is_told_with_what_to_do(tmp_path: Path) -> None:
    write_offsets(tmp_path, 0, 70)
    write_commit(tmp_path, 0)
    (tmp_path / "offsets" / "0").write_text("")

    with pytest.raises(TallyError, match="restore the whole folder, or move it away"):
        read_committed_position(tmp_path)


def test_batch_starts_where_the_one_before_ends_and_the_first_where_the_query_began(
    tmp_path: Path,
) -> None:
    write_offsets(tmp_path, 0, 70)
    write_offsets(tmp_path, 1, 80)
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_text('\0v1\n{"sales": {"0": 7, "11": 2147483648}}')

    assert read_planned_start(tmp_path, 0) == {"sales": {0: 7, 11: 2**31}}
    assert read_planned_start(tmp_path, 1) == read_planned_end(tmp_path, 0)
    assert read_planned_end(tmp_path, 1)["sales"] == {0: 80}


@pytest.mark.parametrize(
    "text", ["", "v1", 'v1\n{"batchWatermarkMs": 0}', "v1\n{}\n[1]", "v1\n{}\n{"]
)
def test_log_that_was_cut_off_refuses_and_does_not_pass_for_another(
    tmp_path: Path, text: str
) -> None:
    """The second line alone is JSON too: offsets of no topic."""
    write_offsets(tmp_path, 3, 70)
    (tmp_path / "offsets" / "3").write_text(text)

    for planned, batch in ((read_planned_end, 3), (read_planned_start, 4)):
        with pytest.raises(
            UnrecoverableError, match=r"offsets/3 is damaged or missing .* move it away"
        ):
            planned(tmp_path, batch)
    with pytest.raises(UnrecoverableError, match="sources/0/0 is damaged or missing"):
        read_planned_start(tmp_path, 0)
