import os
from pathlib import Path

import pytest

from runtime.process.files import write_atomically
from tests.unit.architecture.counts.sources import ROOT, python_files


@pytest.mark.parametrize("content", ["Größe", "Größe".encode()])
def test_file_is_replaced_whole_and_nothing_is_left_beside_it(
    tmp_path: Path, content: str | bytes
) -> None:
    file = tmp_path / "kept"
    file.write_text("a longer text that was there before")

    write_atomically(file, content)

    assert file.read_text("utf-8") == "Größe"
    assert list(tmp_path.iterdir()) == [file]


def test_who_reads_before_the_end_finds_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kept"
    write_atomically(file, "before")
    found: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda number: found.append(file.read_text()))

    write_atomically(file, "after", is_durable=True)
    write_atomically(file, "later")

    # Once: what need not be durable waits for no disk.
    assert found == ["before"]
    assert file.read_text() == "later"


def test_a_file_in_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "nowhere" / "kept", "text")


def test_no_other_file_of_the_product_writes_beside_and_renames() -> None:
    product = [file for file in python_files() if file.parts[0] not in ("tests", "bench")]
    found = [
        str(file)
        for file in product
        if ".arriving" in (text := (ROOT / file).read_text("utf-8")) and ".rename(" in text
    ]

    # The others keep folders, or copies of large files: a backup, an upgraded master dataset,
    # downloaded jars that are checked before they get their name.
    assert found == [
        "ops/backup/restore.py",
        "ops/backup/save.py",
        "ops/local/artifacts.py",
        "ops/upgrade/master.py",
        "runtime/process/files.py",
    ]
