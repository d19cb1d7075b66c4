"""What a rebuild reads from Cassandra and writes there goes by the one retry rule, to the last
statement."""

from contextlib import nullcontext
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from cassandra import OperationTimedOut, cqltypes
from cassandra.util import Date
from pyspark.errors import PythonException

from batch_layer.views import rebuild
from batch_layer.views.publish.announcements import Outbox
from batch_layer.views.publish.registers import write_findings
from batch_layer.views.publish.stored_rows import StoredRows
from runtime.cassandra import writes
from runtime.connect import CQL_DATE_ZERO
from runtime.process.job import FAILED
from runtime.registry.sources import TRAFFIC
from tally.families.versions import VersionChoice
from tests.support.serving.answering_session import AnsweringSession

LONG = cqltypes.LongType
MONDAY = date(2026, 3, 2)
NUMBER = (MONDAY - date(1970, 1, 1)).days
TEN = datetime(2026, 3, 2, 10, tzinfo=UTC)


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a session into the driver's place."""

    def put(session: AnsweringSession) -> AnsweringSession:
        monkeypatch.setattr(writes, "execute_concurrent", session.execute_concurrent)
        return session

    return put


def traffic_row(values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Two versions of a row of the store's first day, of generation 5 with one person more."""
    day = Date(values[1][0] - CQL_DATE_ZERO)
    start = TEN.replace(tzinfo=None)
    return [(day, number, start, "*", "", 2, 3 + number, *[0] * 12) for number in (5, 3)]


def test_rows_of_a_generation_are_read_again_where_a_question_has_no_answer(patched: Any) -> None:
    session = patched(AnsweringSession((), traffic_row, silent=2))

    found = StoredRows(session, TRAFFIC).read([("367", NUMBER)], {NUMBER: VersionChoice(5, {3, 5})})

    [values] = found["367", NUMBER].values()
    assert values[:2] == (2, 8)
    assert set(session.asked.values()) == {3}


def test_earlier_findings_about_tills_are_read_again_until_they_are_known(patched: Any) -> None:
    def noted(values: tuple[Any, ...]) -> list[Any]:
        key = {"day": Date(values[1]), "store_id": "367", "till_id": "1"}
        return [SimpleNamespace(**key, conflicts=20)]

    types = (cqltypes.UTF8Type, cqltypes.SimpleDateType, *(cqltypes.UTF8Type,) * 2)
    session = patched(AnsweringSession((*types, *(LONG,) * 4), noted, silent=1))

    assert write_findings(session, TRAFFIC, 5, [MONDAY], []) == 0

    [(text, values)] = session.written
    assert "INSERT INTO till_finding" in text and values[2:4] == (b"367", b"1")
    assert set(session.asked.values()) == {2}


def test_windows_that_were_told_are_forgotten_although_cassandra_is_silent_at_first(
    patched: Any,
) -> None:
    types = (cqltypes.UTF8Type, LONG, cqltypes.Int32Type)
    session = patched(AnsweringSession(types, lambda _: [], failing=3))
    session.execute = _only_reads
    told: list[Any] = []
    announcements: Any = SimpleNamespace(send_restatements=told.extend)

    Outbox(session, TRAFFIC).send(5, [MONDAY], announcements)

    deleted = [text for text, _ in session.written]
    # Last of all the run: while it is there, the next rebuild tells its windows again.
    assert len(deleted) == 17 and deleted[-1].startswith("DELETE FROM restatement_run")
    assert {text.split()[2] for text in deleted[:-1]} == {"restated_window"}


def _only_reads(statement: str, _values: Any = None) -> list[Any]:
    if statement.startswith("SELECT"):
        return []
    raise OperationTimedOut()


WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "runtime/cassandra/writes.py", line 104, in until_answered
    raise limit.error(
{error}
"""


@pytest.mark.parametrize(
    "error",
    [
        "tally.errors.CassandraWriteTimeout: Cassandra: 3 writes were not acknowledged",
        "tally.errors.CassandraTimeout: Cassandra: 3 questions were not answered (no answer)",
        "cassandra.OperationTimedOut: errors=None, last_host=None",
        "cassandra.ReadTimeout: Error from server: code=1200",
        "cassandra.cluster.NoHostAvailable: ('Unable to connect to any servers', {})",
    ],
)
def test_rebuild_whose_executors_get_no_answer_from_cassandra_ends_with_one_line(
    error: str, failing_rebuild: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failing_rebuild(WORKER.format(error=error)) == FAILED

    [line] = capsys.readouterr().err.splitlines()
    assert line == f"rebuild: an executor ended: {error}; `tally doctor` looks for the cause"


def test_fault_of_ours_in_an_executor_is_not_swallowed(failing_rebuild: Any) -> None:
    with pytest.raises(PythonException):
        failing_rebuild(WORKER.format(error="ZeroDivisionError: division by zero"))


@pytest.fixture
def failing_rebuild(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a rebuild whose executors fail with the text."""

    def run(text: str) -> int:
        def fail(_job: Any) -> None:
            raise PythonException(text)

        for name in ("cassandra_session", "build_session"):
            monkeypatch.setattr(rebuild, name, lambda *_: nullcontext())
        monkeypatch.setattr(rebuild, "rebuild", fail)
        return rebuild.main([])

    return run
