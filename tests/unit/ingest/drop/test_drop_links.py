"""Whoever may drop files moves, reads and writes no others: links that come at the worst moment."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ingest.senders.drop.folder import DropFolder, DroppedFile
from tests.unit.ingest.drop.drop_folder import (
    AT,
    DAY,
    dropped,
    handed_over,
    handing_over,
    names,
    taken,
)
from tests.unit.ingest.drop.drop_server import Answer, Request

SECRET = b'{"secret": 1}'


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """The folder, with a file in it, and one elsewhere that has a file of the same name."""
    root, elsewhere = tmp_path / "drop", tmp_path / "elsewhere"
    dropped(root, "pos/till=1/day.json", b"{}", AT)
    dropped(elsewhere, "till=1/day.json", SECRET, AT)
    dropped(elsewhere, "day.json", SECRET, AT)
    return root, elsewhere


def exchanged(folder: Path, target: Path) -> None:
    """A link in the place of a folder."""
    folder.rename(folder.with_name(f".{folder.name}-away"))
    folder.symlink_to(target)


def untouched(elsewhere: Path) -> bool:
    there = {one.relative_to(elsewhere) for one in elsewhere.rglob("*") if one.is_file()}
    same = all((elsewhere / one).read_bytes() == SECRET for one in there)
    return same and there == {Path("day.json"), Path("till=1/day.json")}


def after_check(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], Any]) -> list[int]:
    """Acts once, right after the so-many-th comparison of the file; each is counted."""
    seen: list[int] = []
    compare = DroppedFile._compare

    def compared(self: DroppedFile, found: os.stat_result) -> None:
        compare(self, found)
        seen.append(len(seen) + 1)
        if seen[-1] == number:
            act()

    monkeypatch.setattr(DroppedFile, "_compare", compared)
    return seen


@pytest.mark.parametrize("link", ["pos", "pos/till=1"])
# When it is opened, before its body is sent, before it is moved away.
@pytest.mark.parametrize("moment", [1, 2, 3])
def test_a_folder_that_becomes_a_link_leads_nowhere(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, link: str, moment: int
) -> None:
    root, elsewhere = places
    target = elsewhere if link == "pos" else elsewhere / "till=1"
    compared = after_check(monkeypatch, moment, lambda: exchanged(root / link, target))

    _, seen = handed_over(root, taken)

    assert len(compared) >= moment
    assert untouched(elsewhere)
    assert SECRET not in {one.content for one in seen}


def test_a_folder_that_is_a_link_when_it_is_opened_is_not_followed(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, elsewhere = places
    look = DropFolder.scan

    def looked(self: DropFolder, now: float) -> Any:
        found = look(self, now)
        if not (root / "pos").is_symlink():
            # The very file that was looked at: by its numbers it is the same one.
            (elsewhere / "till=1/day.json").unlink()
            os.link(root / "pos/till=1/day.json", elsewhere / "till=1/day.json")
            exchanged(root / "pos", elsewhere)
        return found

    monkeypatch.setattr(DropFolder, "scan", looked)

    summary, seen = handed_over(root, taken)

    assert (summary["taken"], seen) == (0, [])
    assert (elsewhere / "till=1/day.json").exists()


@pytest.mark.parametrize("moment", [1, 3])
def test_the_place_of_filed_files_that_becomes_a_link_leads_nowhere(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    root, elsewhere = places
    compared = after_check(monkeypatch, moment, lambda: exchanged(root / "done", elsewhere))

    handed_over(root, taken)

    assert len(compared) >= moment
    assert untouched(elsewhere)


def test_what_was_said_of_a_file_is_written_through_no_link(places: tuple[Path, Path]) -> None:
    root, elsewhere = places

    def refused(_request: Request) -> Answer:
        exchanged(root / "refused", elsewhere)
        return Answer(400, {"detail": "no"})

    handed_over(root, refused)

    assert untouched(elsewhere)


def test_a_hard_link_is_passed_over_with_a_reason(
    places: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    root, elsewhere = places
    os.link(elsewhere / "day.json", root / "pos/linked.json")

    summary, seen = handed_over(root, taken)

    assert (summary["taken"], summary["passed"], len(seen)) == (1, 1, 1)
    assert "pos/linked.json: not taken: it has another name" in capsys.readouterr().err
    assert untouched(elsewhere) and (root / "pos/linked.json").exists()


def test_a_file_that_is_exchanged_right_before_it_is_moved_comes_back(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = places

    def exchange() -> None:
        (root / "pos/till=1/day.json").unlink()
        dropped(root, "pos/till=1/day.json", b"another", AT)

    compared = after_check(monkeypatch, 3, exchange)

    summary, _ = handed_over(root, taken)

    assert len(compared) >= 3
    # It was not sent, so it is not filed as sent.
    assert names(root) == {"pos/till=1/day.json"}
    assert (summary["taken"], summary["waiting"]) == (0, 1)


def test_old_files_are_deleted_through_no_link(places: tuple[Path, Path]) -> None:
    root, elsewhere = places
    old = dropped(elsewhere, "2020-01-01T00-00Z/day.json", SECRET)
    with handing_over(root, taken) as (rounds, _):
        rounds.run()
        exchanged(root / "done", elsewhere)
        with suppress(OSError):
            rounds.folder.delete_expired(DAY, AT + 365 * DAY)

    assert old.exists()
