"""With which guarantees Tally connects; one node or one broker alone, or a machine at rest, could
not show them. And how a job ends when nobody answers."""

import pytest
from cassandra import (
    ConsistencyLevel,
    InvalidRequest,
    OperationTimedOut,
    ReadFailure,
    ReadTimeout,
    Unavailable,
    WriteFailure,
    WriteTimeout,
    WriteType,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException
from cassandra.protocol import OverloadedErrorMessage

from runtime import connect
from runtime.connect import REQUEST_TIMEOUT_SECONDS, cassandra_cluster, cassandra_session
from runtime.process.job import FAILED, run_job
from tally.config.settings import Settings


def test_views_are_read_and_written_by_a_quorum_and_pointers_are_linearizable() -> None:
    profile = cassandra_cluster(Settings()).profile_manager.default

    assert (profile.consistency_level, profile.serial_consistency_level) == (
        ConsistencyLevel.LOCAL_QUORUM,
        ConsistencyLevel.SERIAL,
    )


def test_session_waits_for_the_schema_as_long_as_for_any_answer() -> None:
    assert cassandra_cluster(Settings()).control_connection_timeout == REQUEST_TIMEOUT_SECONDS


class _Cluster:
    def connect(self, _keyspace: str | None) -> object:
        return object()

    def shutdown(self) -> None:
        pass


SILENT = [
    OperationTimedOut({"127.0.0.1:9042": "Client request timeout"}, "127.0.0.1:9042"),
    ReadTimeout("Error from server: code=1200\n[Coordinator node timed out]"),
    WriteTimeout("Error from server: code=1100", write_type=WriteType.SIMPLE),
    Unavailable("Cannot achieve consistency level LOCAL_QUORUM"),
    ReadFailure("Error from server: code=1300"),
    WriteFailure("Error from server: code=1500", write_type=WriteType.SIMPLE),
    OverloadedErrorMessage(0x1001, "busy", None),
    NoHostAvailable("Unable to complete the operation against any hosts", {}),
    ConnectionException("gone"),
]


@pytest.mark.parametrize("error", SILENT, ids=lambda error: type(error).__name__)
def test_job_whose_node_does_not_answer_ends_with_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connect, "cassandra_cluster", lambda _settings: _Cluster())

    def work() -> None:
        with cassandra_session(Settings()):
            raise error

    assert run_job("rebuild", work) == FAILED
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rebuild: cassandra at {Settings().cassandra}: ")
    assert line.endswith("; `tally doctor` looks for the cause")


def test_question_that_cassandra_refuses_is_a_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connect, "cassandra_cluster", lambda _settings: _Cluster())

    with pytest.raises(InvalidRequest), cassandra_session(Settings()):
        raise InvalidRequest("unconfigured table")
