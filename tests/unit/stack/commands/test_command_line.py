"""The command's outer form: exit codes and what goes where."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from ops.cli import app
from runtime.process import output


def tally(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ops.cli", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={"TALLY_HOME": str(home), "PATH": "/usr/bin:/bin"},
        check=False,
    )


def test_status_of_a_stack_that_was_never_up(tmp_path: Path) -> None:
    answer = tally(tmp_path, "status", "--json")

    services = json.loads(answer.stdout)["services"]
    assert answer.returncode == 1
    assert list(services) == [
        "kafka",
        "cassandra",
        "normaliser",
        "gateway",
        "speed",
        "receipts",
        "master",
        "evaluator",
        "projector",
        "dispatcher",
        "api",
        "airflow",
    ]
    assert {key: services["speed"][key] for key in ("state", "pid", "address")} == {
        "state": "stopped",
        "pid": None,
        "address": None,
    }
    assert services["kafka"]["address"].startswith("127.0.0.1:") and services["api"][
        "address"
    ].startswith("http://127.0.0.1:")


def test_error_is_one_line_on_standard_error_and_exit_code_1(tmp_path: Path) -> None:
    answer = tally(tmp_path, "up", "kafak")

    assert (answer.returncode, answer.stdout, len(answer.stderr.splitlines())) == (1, "", 1)
    assert answer.stderr.startswith("tally: no service kafak; there are ")


def test_wrong_use_is_exit_code_2(tmp_path: Path) -> None:
    assert tally(tmp_path, "status", "--no-such-option").returncode == 2


def test_down_of_nothing_is_done(tmp_path: Path) -> None:
    assert tally(tmp_path, "down").returncode == 0


def test_progress_without_a_terminal_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with output.show_progress("receipts", 2) as advance:
        advance(1)
        advance(1)

    assert capsys.readouterr().err == "receipts: 2 of 2\n"


def test_error_of_the_brokers_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def verb() -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "topic sales: no answer"))

    monkeypatch.setattr(app, "build_app", lambda: verb)
    monkeypatch.setattr("os.umask", lambda mask: mask)

    assert (app.main(), capsys.readouterr().err) == (
        1,
        "tally: Kafka: topic sales: no answer; `tally doctor` looks for the cause\n",
    )
