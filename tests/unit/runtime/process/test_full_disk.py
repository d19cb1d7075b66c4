"""A full disk: nothing half takes a name, no loop ends, and with space all goes on by itself.

The disk is full by the kernel's own word: no file of this process may grow beyond some bytes, and
what writes more gets an OSError, after as much as fits.
"""

import errno
import io
import json
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog

from ingest.senders.drop.folder import DropFolder
from runtime.process import job
from runtime.process.files import write_atomically
from runtime.process.heartbeat import Heartbeat
from runtime.records.device_keys import DeviceKeys
from tally.config.keys import load_digest_key
from tally.errors import BadSettings, KeysUnreachable
from tally.time.day_clock import DatedPeriod
from tests.unit.ingest.drop.drop_folder import dropped, handing_over, names
from tests.unit.ingest.drop.drop_server import Answer

FITS = 10
DAY = DatedPeriod(
    datetime(2026, 3, 2).date(),
    datetime(2026, 3, 2, tzinfo=UTC),
    datetime(2026, 3, 3, tzinfo=UTC),
)


@contextmanager
def full_disk(fits: int = FITS) -> Iterator[None]:
    """No file grows beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (fits, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_the_disk_of_these_tests_takes_the_beginning_of_a_file_and_no_more(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(OSError) as told, (tmp_path / "a").open("wb") as opened:
        opened.write(b"x" * 100)

    assert told.value.errno == errno.EFBIG
    assert (tmp_path / "a").stat().st_size == FITS


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_file_keeps_what_it_had_and_nothing_half_is_left(
    tmp_path: Path, is_durable: bool
) -> None:
    file = tmp_path / "kept"
    write_atomically(file, "before")

    with full_disk(), pytest.raises(OSError):
        write_atomically(file, "x" * 100, is_durable=is_durable)

    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("kept", "before")]
    write_atomically(file, "x" * 100, is_durable=is_durable)
    assert file.read_text() == "x" * 100


def test_a_heartbeat_that_cannot_be_written_ends_no_loop_and_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.process.heartbeat._EVERY_SECONDS", 0.0)
    file = tmp_path / "beat"
    heart = Heartbeat(file)

    with full_disk(), structlog.testing.capture_logs() as told:
        for number in range(3):
            heart.beat(number, is_behind=True)
    assert not file.exists()
    # Said once, and not with each beat.
    assert [one["event"] for one in told] == ["no heartbeat"]
    heart.beat(9, is_behind=True)

    assert heart.beats == 4
    assert json.loads(file.read_text())["at"] > 0


def test_a_process_that_ends_on_a_full_disk_ends_with_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(job.EXIT_FILE, str(tmp_path / "exit"))

    with full_disk():
        code = job._report_end("gateway", 78, "the reason of its end")

    assert code == 78
    assert [*tmp_path.iterdir()] == []
    assert job._report_end("gateway", 1, "another") == 1
    assert json.loads((tmp_path / "exit").read_text()) == {"code": 1, "reason": "another"}


class _FullStream(io.StringIO):
    """Standard error in a file on a full disk."""

    is_full = True

    def write(self, text: str) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def test_a_line_of_the_log_that_cannot_be_written_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = _FullStream()
    monkeypatch.setattr(sys, "stderr", stream)
    logger = job._stderr_logger()

    logger.msg("lost")
    stream.is_full = False
    logger.msg("written")

    assert isinstance(logger, structlog.PrintLogger)
    assert stream.getvalue() == "written\n"


def test_no_short_key_is_ever_used_and_none_is_left(tmp_path: Path) -> None:
    keys, device = DeviceKeys(tmp_path / "keys"), bytes.fromhex("3c000000a5c3")

    with full_disk(), pytest.raises(KeysUnreachable):
        keys.hash_address(device, "367", DAY, timedelta(hours=1))

    assert [one for one in (tmp_path / "keys").rglob("*") if one.is_file()] == []
    first = keys.hash_address(device, "367", DAY, timedelta(hours=1))
    assert (
        DeviceKeys(tmp_path / "keys").hash_address(device, "367", DAY, timedelta(hours=1)) == first
    )


def test_the_key_of_an_installation_is_whole_or_not_there(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(BadSettings, match="File too large"):
        load_digest_key(tmp_path)

    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []
    assert load_digest_key(tmp_path) == load_digest_key(tmp_path)


def test_a_dropped_file_stays_until_what_was_said_of_it_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The terminal is no file.
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    dropped(tmp_path, "pos/day.json", b"bad")
    dropped(tmp_path, "pos/good.json", b"good")

    def answered(request: object) -> Answer:
        is_bad = getattr(request, "content", b"") == b"bad"
        return Answer(400, {"detail": "the body is no JSON"}) if is_bad else Answer()

    with handing_over(tmp_path, answered) as (rounds, seen):
        with full_disk():
            rounds.run()
        # Nothing has to be written of the one that was taken.
        assert names(tmp_path) == {"pos/day.json", "done/pos/good.json"}
        rounds._resume_file_at.clear()
        rounds.run()

        assert (rounds.counts["taken"], rounds.counts["refused"], rounds.waiting) == (1, 1, 0)
    assert names(tmp_path) == {
        "done/pos/good.json",
        "refused/pos/day.json",
        "refused/pos/day.json.refused.json",
    }
    assert len(seen) == 3
    assert DropFolder(tmp_path, 0).scan(0).ignored == {}


def test_control_a_file_that_is_written_in_its_place_is_half_there(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    file.write_text("before")

    with full_disk(), pytest.raises(OSError):
        file.write_text("x" * 100)

    assert file.read_text() == "x" * FITS
