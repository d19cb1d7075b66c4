"""`tally drop` as a process: what it prints, its exit codes, and that it is alone."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.ingest.drop.drop_server import Answer, Request, answering, wait_until

NO_WAIT = ("--settled-seconds", "0")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "drop"
    (folder / "pos").mkdir(parents=True)
    return folder


def begin(root: Path, gateway: str, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "ops.cli", "drop", str(root), *options]
    environment = {
        "TALLY_HOME": str(root.parent / "home"),
        "TALLY_GATEWAY": gateway,
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def answer(request: Request) -> Answer:
    rejected = [{"line": 1, "errors": []}] if b"half" in request.content else []
    return Answer(202, {"accepted": 2, "rejected": rejected})


@pytest.mark.parametrize(("content", "rejected", "code"), [("{}", 0, 0), ('{"half": 1}', 1, 1)])
def test_one_json_object_and_a_code_that_says_whether_all_was_taken(
    root: Path, content: str, rejected: int, code: int
) -> None:
    (root / "pos" / "day.json").write_text(content, "utf-8")
    with answering(answer) as (gateway, _):
        returned, out, _ = ended(begin(root, gateway, "--json", *NO_WAIT))

    assert (returned, json.loads(out)) == (
        code,
        {
            "taken": 1,
            "refused": 0,
            "accepted": 2,
            "rejected": rejected,
            "skipped": 0,
            "cleared": 0,
            "waiting": 0,
            "passed": 0,
        },
    )


def test_summary_for_people(root: Path) -> None:
    with answering(answer) as (gateway, _):
        code, out, err = ended(begin(root, gateway, *NO_WAIT))

    assert (code, err) == (0, "")
    assert out.startswith("0 files taken (0 events, 0 rejected, 0 skipped), 0 refused, 0 wait")


def test_who_watches_finds_what_comes_and_is_alone_until_stopped(root: Path) -> None:
    with answering(answer) as (gateway, seen):
        watching = begin(root, gateway, "--watch", "--json", *NO_WAIT)
        wait_until((root / "done" / "drop.lock").exists)
        (root / "pos" / "day.json").write_text("{}", "utf-8")
        wait_until(lambda: seen)
        second = ended(begin(root, gateway))
        watching.send_signal(signal.SIGTERM)
        code, out, _ = ended(watching)

    assert (code, json.loads(out)["taken"]) == (0, 1)
    assert (second[0], second[1]) == (1, "")
    assert f"another `tally drop` has it: {root}" in second[2]


def test_folder_that_is_not_there_is_wrong_use(root: Path) -> None:
    assert ended(begin(root / "nowhere", "127.0.0.1:9"))[0] == 2
