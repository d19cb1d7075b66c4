"""A digest as a file: once by its name, the same bytes whoever writes it, and never half of it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from alerting.deliver.digest_files import FILE_STEPS, RENAMED, DigestFiles
from alerting.deliver.engine.digest import file_name
from alerting.deliver.state.records import FILE_PREFIX, WebhookMessage
from tests.unit.alerting.deliver.deliveries import (
    HOUR,
    NOON,
    Town,
    alert,
    channel,
    desk_with,
    later,
    messages,
)

NAME = "office/2026-11-27_367.json"
CONTENT = b'{"type":"alerts.digest"}' * 800
FILED: dict[str, Any] = {"digest": "07:00", "digest_as": "file", "max_age": 10**9}
# A process that dies when a step of its writing has been done: FOLDER STEP ATTEMPT.
DYING = f"""
import os, signal, sys
from pathlib import Path
from alerting.deliver.digest_files import DigestFiles
folder, step, attempt = sys.argv[1:]
def reach(name):
    if name == step:
        os.kill(os.getpid(), signal.SIGKILL)
DigestFiles(Path(folder), reach).write({NAME!r}, int(attempt), {CONTENT!r})
"""


def killed(folder: Path, step: str, attempt: int = 1) -> int:
    """How a process has ended that writes the file and dies there."""
    command = [sys.executable, "-c", DYING, str(folder), step, str(attempt)]
    return subprocess.run(command, timeout=60, check=False).returncode


def names(folder: Path) -> list[str]:
    """All files below a folder, hidden ones too."""
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())


@pytest.mark.parametrize("step", FILE_STEPS)
def test_killed_between_two_steps_it_is_there_whole_or_not_and_then_once(
    tmp_path: Path, step: str
) -> None:
    assert killed(tmp_path, step) == -signal.SIGKILL
    has_name = FILE_STEPS.index(step) >= FILE_STEPS.index(RENAMED)
    assert (tmp_path / NAME).exists() == has_name
    assert not has_name or (tmp_path / NAME).read_bytes() == CONTENT

    answer = DigestFiles(tmp_path).write(NAME, 2, CONTENT)

    assert answer.status == 201
    assert names(tmp_path) == [NAME]
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_killed_at_every_step_one_after_the_other_nothing_is_left_behind(tmp_path: Path) -> None:
    for attempt, step in enumerate(FILE_STEPS, 1):
        assert killed(tmp_path, step, attempt) == -signal.SIGKILL

    assert DigestFiles(tmp_path).write(NAME, 9, CONTENT).status == 201
    assert names(tmp_path) == [NAME]


def test_who_was_thought_to_be_dead_cuts_nothing_off(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def reach(name: str) -> None:
        # The successor writes while the first one stands between two of its steps.
        if name != RENAMED:
            assert DigestFiles(tmp_path).write(NAME, 2, CONTENT).status == 201
        seen.append((tmp_path / NAME).read_bytes())

    DigestFiles(tmp_path, reach).write(NAME, 1, CONTENT)

    assert seen and {*seen} == {CONTENT}
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_where_it_cannot_be_written_it_is_said_and_nothing_half_has_the_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "office").write_text("no folder", "utf-8")

    answer = DigestFiles(tmp_path).write(NAME, 1, CONTENT)

    assert (answer.status, answer.is_refused) == (None, False)
    assert NAME in answer.error


def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_folder_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real = os.fsync

    def synced(at: int) -> None:
        order.append("fsync")
        real(at)

    monkeypatch.setattr(os, "fsync", synced)

    DigestFiles(tmp_path, order.append).write(NAME, 1, CONTENT)

    assert order == ["fsync", "written", "fsync", "synced", "renamed", "fsync", "kept"]


@pytest.mark.parametrize(
    ("store", "name"),
    [
        ("367", "office/2026-11-27_367.json"),
        ("..", "office/2026-11-27_...json"),
        ("../../etc/x", "office/2026-11-27_..%2F..%2Fetc%2Fx.json"),
        ("a\x00b\n", "office/2026-11-27_a%00b%0A.json"),
        ("*[x]?", "office/2026-11-27_%2A%5Bx%5D%3F.json"),
    ],
)
def test_whatever_a_store_is_called_its_file_lies_in_the_channel_s_folder(
    store: str, name: str, tmp_path: Path
) -> None:
    assert file_name("office", store, "2026-11-27") == name

    assert DigestFiles(tmp_path).write(name, 1, CONTENT).status == 201
    assert names(tmp_path) == [name]


@pytest.mark.parametrize("store", ["ö" * 64, "/" * 300, "x" * 201])
def test_a_store_with_a_long_name_has_a_file_of_its_own(store: str, tmp_path: Path) -> None:
    name, other = (file_name("office", one, "2026-11-27") for one in (store, store + "y"))

    assert name != other
    assert len(Path(name).name.encode()) < 240
    assert DigestFiles(tmp_path).write(name, 1, CONTENT).status == 201


def due(**changed: Any) -> WebhookMessage:
    """The digest of a desk whose tick makes one due."""
    desk = desk_with(channel("office", **FILED | changed))
    desk.process_alert(alert(1))
    [digest] = [one for one in messages(later(desk, 19 * HOUR)) if one.kind == "digest"]
    return digest


def test_a_digest_is_a_file_of_its_store_and_date_and_may_always_be_written_again() -> None:
    digest = due(promise="at_most_once")

    assert digest.url == FILE_PREFIX + NAME
    assert digest.promise == "at_least_once"
    assert json.loads(digest.body)["data"]["date"] == "2026-11-27"
    assert due(digest_as="webhook").url.startswith("https:")


def test_it_is_what_was_decided_up_to_its_tick_whatever_comes_before_it_is_written() -> None:
    desk = desk_with(channel("office", **FILED))
    desk.process_alert(alert(1))
    kept = later(desk, 19 * HOUR)
    [digest] = [one for one in messages(kept) if one.kind == "digest"]
    again = desk_with(channel("office", **FILED))
    again.restore([*desk.memory.channel_decisions("office"), *kept])  # type: ignore[list-item]
    again.apply_control(channel("office", **FILED))
    again.process_alert(alert(2))
    assert not [one for one in messages(later(again, HOUR)) if one.kind == "digest"]

    [called] = [one for one in again.begin_attempts([]).calls if one.kind == "digest"]

    assert (called.url, called.body, called.message_id) == (
        *(digest.url, digest.body),
        digest.message_id,
    )


def test_a_day_that_a_zone_has_left_out_has_no_file_and_its_alerts_stand_in_the_next() -> None:
    # 29 December 2011, 22:00 in Samoa; the 30th was left out.
    evening = 1_325_232_000_000
    desk = desk_with(channel("office", **FILED), town=Town(zone="Pacific/Apia"), at=evening - HOUR)
    assert desk.memory.time.at == evening - HOUR and evening < NOON
    desk.process_alert(alert(1, at=evening))
    found = [one for _ in range(60) for one in messages(later(desk, HOUR)) if one.kind == "digest"]

    assert [one.url for one in found] == [FILE_PREFIX + "office/2011-12-31_367.json"]
