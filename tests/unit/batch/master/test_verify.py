"""What the verification of the master dataset finds, and which files it reads."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from deltalake import DeltaTable

from batch_layer.master.table import MasterTable
from batch_layer.master.verify import verify
from tally.errors import TallyError
from tests.unit.batch.master.masters import append, maintain_now, write_part


def first_100(path: Path) -> MasterTable:
    """A master of ten appends of ten records each."""
    master = MasterTable.open(path)
    for begin in range(0, 100, 10):
        append(master, range(begin, begin + 10))
    return master


def test_appends_that_follow_one_another_are_well(tmp_path: Path) -> None:
    first_100(tmp_path / "master")

    found = verify(tmp_path / "master")

    [line] = found.lines
    assert (found.ok, found.files_read, line.rows.number, line.highest, line.until) == (
        *(True, 10, 100, 99, 100),
    )


def test_second_verification_reads_only_what_is_new(tmp_path: Path) -> None:
    master = first_100(tmp_path / "master")
    verify(tmp_path / "master")
    append(master, range(100, 105))

    found = verify(tmp_path / "master")

    assert (found.ok, found.files, found.files_read, found.lines[0].rows.number) == (
        *(True, 11, 1, 105),
    )


def test_merged_files_are_read_and_are_the_same_rows(tmp_path: Path) -> None:
    first_100(tmp_path / "master")
    before = verify(tmp_path / "master")
    maintain_now(tmp_path / "master")

    found = verify(tmp_path / "master")

    assert (found.files, found.files_read, found.lines) == (1, 1, before.lines)
    assert verify(tmp_path / "master", is_full=True).lines == before.lines


@pytest.mark.parametrize("offsets", [[*range(90, 100)], [99, 100], [100, 100], [5]])
@pytest.mark.parametrize("is_full", [True, False])
def test_record_that_is_there_twice_is_found(
    offsets: Sequence[int], is_full: bool, tmp_path: Path
) -> None:
    master = first_100(tmp_path / "master")
    verify(tmp_path / "master")
    append(master, offsets, until=101)

    found = verify(tmp_path / "master", is_full=is_full)

    assert not found.ok
    # It stays found.
    assert not verify(tmp_path / "master").ok


def test_merge_that_loses_one_row_and_repeats_another_is_found(tmp_path: Path) -> None:
    first_100(tmp_path / "master")
    verify(tmp_path / "master")
    replace_all_files(tmp_path / "master", [0, 0, *range(2, 100)])

    found = verify(tmp_path / "master")

    assert (found.ok, found.lines[0].rows.number) == (False, 100)


def replace_all_files(path: Path, offsets: Sequence[int]) -> None:
    """Commit a file of these offsets in place of all that are live, as a wrong merge would."""
    table = DeltaTable(str(path))
    file = table.optimize.compact()
    assert file["numFilesAdded"] == 1
    [live] = DeltaTable(str(path)).file_uris()
    part = write_part(path, offsets)
    (path / part.path).replace(live)


def test_record_beyond_the_claimed_end_is_found(tmp_path: Path) -> None:
    append(MasterTable.open(tmp_path / "master"), [0, 1, 2], until=2)

    assert verify(tmp_path / "master").ok is False


def test_missing_master_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TallyError, match="tally up master"):
        verify(tmp_path / "master")


def test_notes_that_are_damaged_are_named(tmp_path: Path) -> None:
    first_100(tmp_path / "master")
    (tmp_path / "master-verified.json").write_text("{", "utf-8")

    with pytest.raises(TallyError, match=r"master-verified\.json: .*--full"):
        verify(tmp_path / "master")
