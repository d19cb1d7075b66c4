"""How a job ends: its exit code says whether a new start may heal it, its exit file says why."""

import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from runtime.job import DONE, FAILED, REFUSED, run_job
from tally.errors import (
    AlreadyRunning,
    BadSettings,
    DataLoss,
    DefinitionChanged,
    Fenced,
    OutcomeUnknown,
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
    "error", [BadSettings("x"), DataLoss("x"), DefinitionChanged("x"), Fenced("x")]
)
def test_refusal_has_an_exit_code_of_its_own(exit_file: Path, error: TallyError) -> None:
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
