"""Files that are dropped: where they go, what stays, what is filed and with what beside it."""

import os
import time
from pathlib import Path
from threading import Thread

import pytest

from ingest.senders.drop.folder import DropFolder
from tally.errors import DropUnusable
from tests.unit.ingest.drop.drop_folder import (
    AT,
    DAY,
    beside,
    dropped,
    handed_over,
    handing_over,
    names,
    taken,
)
from tests.unit.ingest.drop.drop_server import Answer, Request, wait_until


def test_folders_say_where_a_file_goes_and_its_ending_what_it_is(tmp_path: Path) -> None:
    dropped(tmp_path, "traffic/axis_csv/sensor=ACCC 1&b/monday.csv", b"a,b", AT)
    dropped(tmp_path, "pos/receipts.ndjson", b"{}\n{}", AT + 1)
    dropped(tmp_path, "po s?x=1#/ä?%2F/day.json", b"{}", AT + 2)

    summary, seen = handed_over(tmp_path, taken)

    assert (summary["taken"], summary["accepted"], summary["waiting"]) == (3, 3, 0)
    assert [(one.path, one.media_type, one.content) for one in seen] == [
        (
            "/v1/events/traffic/axis_csv"
            "?sensor=ACCC+1%26b&exported_at=2026-03-02T12%3A00%3A00.000Z",
            "application/octet-stream",
            b"a,b",
        ),
        ("/v1/events/pos", "application/x-ndjson", b"{}\n{}"),
        (
            # A name with `=` in it is a parameter.
            "/v1/events/%C3%A4%3F%252F?po+s%3Fx=1%23&exported_at=2026-03-02T12%3A00%3A02.000Z",
            "application/json",
            b"{}",
        ),
    ]
    assert names(tmp_path) == {
        "done/traffic/axis_csv/sensor=ACCC 1&b/monday.csv",
        "done/pos/receipts.ndjson",
        "done/po s?x=1#/ä?%2F/day.json",
    }


def test_folder_may_say_itself_when_a_file_was_exported(tmp_path: Path) -> None:
    dropped(tmp_path, "traffic/axis_csv/sensor=a/exported_at=2026-03-01T00:00:00Z/a.csv")

    _, seen = handed_over(tmp_path, taken)

    assert [one.path.partition("exported_at=")[2] for one in seen] == ["2026-03-01T00%3A00%3A00Z"]


def test_filed_files_are_their_owners_alone(tmp_path: Path) -> None:
    # Somebody else may have made them before.
    for where in ("done", "refused"):
        (tmp_path / where).mkdir()
        (tmp_path / where).chmod(0o777)
    file = dropped(tmp_path, "pos/day.json")
    file.chmod(0o666)
    dropped(tmp_path, "nothing.json")

    handed_over(tmp_path, taken)

    for where in ("done", "refused"):
        found = [tmp_path / where, *(tmp_path / where).rglob("*")]
        assert {(one.is_dir(), one.stat().st_mode & 0o777) for one in found} == {
            (True, 0o700),
            (False, 0o600),
        }


def test_what_was_filed_is_deleted_after_its_time_and_nothing_else(tmp_path: Path) -> None:
    dropped(tmp_path, "pos/day.json")
    dropped(tmp_path, "wrong.json")
    with handing_over(tmp_path, taken) as (rounds, _):
        rounds.run()
        kept = dropped(tmp_path, "done/mine.txt")
        now = time.time()
        assert rounds.folder.delete_expired(DAY, now + DAY - 120) == (0, [])
        # The day, its reason beside the wrong one, and both files.
        assert rounds.folder.delete_expired(DAY, now + DAY) == (3, [])
    assert names(tmp_path) == {"done"} and kept.exists()


def test_file_that_is_still_written_is_left_alone(tmp_path: Path) -> None:
    # A copying program gives it the old time before it has written all of it.
    dropped(tmp_path, "pos/new.json", modified_at=AT)

    summary, seen = handed_over(tmp_path, taken, settled_seconds=30)

    assert (summary["taken"], summary["waiting"], seen) == (0, 1, [])
    assert names(tmp_path) == {"pos/new.json"}


def test_file_that_was_just_written_is_waited_for(tmp_path: Path) -> None:
    dropped(tmp_path, "pos/new.json")

    with handing_over(tmp_path, taken, settled_seconds=1) as (rounds, _):
        rounds.run_once()

    assert (rounds.counts["taken"], rounds.waiting) == (1, 0)


def test_folder_that_is_away_for_a_while_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.senders.drop.rounds._SCAN_EVERY_SECONDS", 0.01)
    root, away = tmp_path / "drop", tmp_path / "away"
    root.mkdir()
    with handing_over(root, taken) as (rounds, seen):
        root.rename(away)
        watching = Thread(target=rounds.watch)
        watching.start()
        time.sleep(0.1)
        dropped(away, "pos/day.json")
        away.rename(root)
        wait_until(lambda: seen)
        rounds.gateway.stopped.set()
        watching.join()

    assert rounds.counts["taken"] == 1


def test_file_that_is_written_to_while_it_is_sent_stays(tmp_path: Path) -> None:
    file = dropped(tmp_path, "pos/day.json", b"{}")

    def grows(_request: Request) -> Answer:
        with file.open("ab") as opened:
            opened.write(b" ")
        os.utime(file, (AT, AT))
        return Answer()

    summary, _ = handed_over(tmp_path, grows)

    assert (summary["taken"], summary["waiting"]) == (0, 1)
    assert names(tmp_path) == {"pos/day.json"}


def test_links_pipes_and_halves_are_passed_over_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "drop"
    secret = dropped(tmp_path, "secret/key.json")
    dropped(root, "pos/half.json.part")
    dropped(root, "pos/.DS_Store")
    os.mkfifo(root / "pos" / "pipe.json")
    (root / "pos" / "link.json").symlink_to(secret)
    (root / "traffic").symlink_to(secret.parent)

    with handing_over(root, taken) as (rounds, seen):
        rounds.run()
        said = capsys.readouterr().err.splitlines()
        rounds.run()

    assert (rounds.summary()["passed"], seen) == (4, [])
    assert sorted(said) == [
        "pos/half.json.part: not taken: a name that ends in .part is that of a file which is still"
        " copied",
        "pos/link.json: not taken: a link is not followed; put the file itself here",
        "pos/pipe.json: not taken: is no regular file",
        "traffic: not taken: a link is not followed; put the file itself here",
    ]
    # It is not said again at each look.
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("wifi/meraki/monday.json", "hardware addresses"),
        ("wifi/a=1/monday.ndjson", "hardware addresses"),
        ("monday.json", "its folders do not say"),
        ("pos/monday.csv", "call it .json"),
    ],
)
def test_what_cannot_be_sent_is_refused_in_words(tmp_path: Path, name: str, reason: str) -> None:
    dropped(tmp_path, name)

    summary, seen = handed_over(tmp_path, taken)

    assert (summary["refused"], seen) == (1, [])
    assert reason in beside(tmp_path, "*.refused.json")["detail"]
    assert f"refused/{name}" in names(tmp_path)


def test_file_of_the_same_name_replaces_none(tmp_path: Path) -> None:
    for content in (b"first", b"second", b"third"):
        dropped(tmp_path, "pos/day.json", content)
        handed_over(tmp_path, taken)

    found = {file.read_bytes() for file in (tmp_path / "done").rglob("*.json")}
    assert found == {b"first", b"second", b"third"}


@pytest.mark.parametrize("name", ["ä" * 125 + ".json", "a." + "x" * 250, "\udcff\x1b[2J.json"])
def test_odd_names_are_filed_with_their_reason(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dropped(tmp_path, f"pos/x/{name}")

    summary, _ = handed_over(tmp_path, lambda _: Answer(400, {"detail": "wrong \ud800"}))

    assert summary["refused"] == 1
    assert beside(tmp_path, "*.refused.json")["detail"] == "wrong \ud800"
    assert "\x1b" not in capsys.readouterr().err


def test_place_for_filed_files_may_be_no_link(tmp_path: Path) -> None:
    root = tmp_path / "drop"
    root.mkdir()
    (root / "done").symlink_to(tmp_path)

    with pytest.raises(DropUnusable, match="is a link"):
        DropFolder(root, 0).prepare()
