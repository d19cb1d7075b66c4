"""How a job ends: its exit code says whether a new start may heal it, its exit file says why."""

import json
import os
import signal
from pathlib import Path
from threading import Event

import pytest
import structlog
from confluent_kafka import KafkaError, KafkaException

from runtime.process.job import (
    DONE,
    FAILED,
    REFUSED,
    NotifyingEvent,
    run_command,
    run_job,
    run_until_stopped,
    signal_ready,
)
from schemas.source import BadSource
from tally.config.settings import Settings
from tally.errors import (
    AlreadyRunning,
    BadSettings,
    DataLoss,
    OutcomeUnknown,
    ProducerFenced,
    StackError,
    TallyError,
)


@pytest.fixture
def exit_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the job is told to leave why it ended."""
    file = tmp_path / "job.exit"
    monkeypatch.setenv("TALLY_EXIT_FILE", str(file))
    return file


def raising(error: Exception) -> int:
    """Exit code of a job whose work raises the error."""

    def work() -> None:
        raise error

    return run_job("job", work)


def test_work_that_returns_is_done_and_leaves_nothing(exit_file: Path) -> None:
    assert (run_job("job", lambda: None), exit_file.exists()) == (DONE, False)


@pytest.mark.parametrize(
    "error",
    [BadSettings("x"), BadSource("x"), DataLoss("x"), ProducerFenced("x")],
)
def test_refusal_has_an_exit_code_of_its_own(exit_file: Path, error: Exception) -> None:
    assert raising(error) == REFUSED == 78
    assert json.loads(exit_file.read_text()) == {"code": REFUSED, "reason": "x"}


@pytest.mark.parametrize(
    "error", [StackError("x"), OutcomeUnknown("x"), AlreadyRunning("x"), TallyError("x")]
)
def test_failure_that_a_new_start_may_heal_is_told_apart(
    exit_file: Path, error: TallyError
) -> None:
    assert raising(error) == FAILED
    assert json.loads(exit_file.read_text()) == {"code": FAILED, "reason": "x"}


def test_error_of_the_brokers_may_heal_and_names_where_to_look(
    exit_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(KafkaException(KafkaError(KafkaError._TRANSPORT))) == FAILED
    assert (
        capsys.readouterr().err.startswith("job: Kafka: ")
        and "tally doctor" in exit_file.read_text()
    )


def test_reason_is_one_line_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TALLY_EXIT_FILE", raising=False)

    assert (raising(DataLoss("sales-0 has a hole")), capsys.readouterr().err) == (
        REFUSED,
        "job: sales-0 has a hole\n",
    )


def test_error_of_the_program_is_not_swallowed(exit_file: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        raising(ZeroDivisionError())


def test_log_of_a_job_leaves_standard_output_to_its_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_job("job", lambda: structlog.get_logger().info("append"))

    said = capsys.readouterr()
    assert ("append" in said.err, said.out) == (True, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_work_and_is_as_before_afterwards(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    stops: list[bool] = []

    def work(stopped: Event) -> None:
        os.kill(os.getpid(), number)
        stops.append(stopped.wait(5))

    assert (run_until_stopped("job", work), stops) == (DONE, [True])
    assert signal.getsignal(number) is before


def test_verb_ends_with_its_own_code_or_with_1_and_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refused() -> None:
        raise DataLoss("sales-0 has a hole")

    assert [run_command("tally", work) for work in (lambda: None, lambda: 3, refused)] == [
        DONE,
        3,
        FAILED,
    ]
    assert capsys.readouterr().err == "tally: sales-0 has a hole\n"


def test_verb_about_a_wrong_source_fails_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def wrong() -> None:
        raise BadSource("sources/stock/source.yaml: kind")

    assert run_command("tally", wrong) == FAILED
    assert capsys.readouterr().err == "tally: sources/stock/source.yaml: kind\n"


def test_ready_file_is_touched_if_somebody_waits_for_it(tmp_path: Path) -> None:
    signal_ready(Settings())
    signal_ready(Settings(ready_file=tmp_path / "ready"))

    assert [file.name for file in tmp_path.iterdir()] == ["ready"]


def test_event_is_announced_once_before_anybody_sees_it() -> None:
    said: list[bool] = []
    event = NotifyingEvent(lambda: said.append(event.is_set()))

    event.set()
    event.set()

    assert (event.is_set(), said) == (True, [False])
