from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from cassandra import InvalidRequest, OperationTimedOut
from cassandra.cluster import Session
from cassandra.concurrent import ExecutionResult

from runtime.cassandra import writes
from runtime.cassandra.writes import write_all
from tally.errors import CassandraWriteTimeout

PATIENCE = 5.0


class Cassandra:
    """Stands in for the driver's execute_concurrent: the named statements fail the given number
    of times."""

    def __init__(self, failing: dict[str, int], error: Exception) -> None:
        self.failing, self.error, self.tried = failing, error, Counter[str]()

    def __call__(
        self, session: Session, tries: Sequence[tuple[str, Any]], **_: Any
    ) -> list[ExecutionResult]:
        """One outcome for each statement, in order."""
        self.tried.update(statement for statement, _ in tries)
        failed = [self.tried[statement] <= self.failing.get(statement, 0) for statement, _ in tries]
        return [ExecutionResult(not wrong, self.error if wrong else None) for wrong in failed]


@pytest.fixture
def cassandra(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Cassandra:
    """The stand-in in the writer's place."""
    stand_in = Cassandra(*request.param)
    monkeypatch.setattr(writes, "execute_concurrent", stand_in)
    return stand_in


def written(*statements: Any, seconds: float = PATIENCE) -> None:
    """The statements given to the writer."""
    write_all(Session, statements, seconds)


@pytest.mark.parametrize("cassandra", [({"b": 2}, OperationTimedOut())], indirect=True)
def test_only_what_was_not_acknowledged_is_written_again(cassandra: Cassandra) -> None:
    written("a", "b", "c")

    assert cassandra.tried == {"a": 1, "b": 3, "c": 1}


@pytest.mark.parametrize("cassandra", [({"b": 1_000}, OperationTimedOut())], indirect=True)
def test_write_that_is_never_acknowledged_fails_the_micro_batch(cassandra: Cassandra) -> None:
    with pytest.raises(CassandraWriteTimeout, match="1 writes were not acknowledged"):
        written("a", "b", seconds=0.3)


@pytest.mark.parametrize("cassandra", [({"b": 1}, InvalidRequest("no such table"))], indirect=True)
def test_error_that_no_repetition_mends_is_raised_at_once(cassandra: Cassandra) -> None:
    with pytest.raises(InvalidRequest, match="no such table"):
        written("a", "b")

    assert cassandra.tried["b"] == 1
