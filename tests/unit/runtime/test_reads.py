"""Many questions to Cassandra by the one rule: what has no answer is asked again, for a while."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from cassandra import InvalidRequest, OperationTimedOut, ReadTimeout, Unavailable
from cassandra.concurrent import ExecutionResult

from runtime.cassandra import writes
from runtime.cassandra.writes import read_many
from tally.errors import CassandraTimeout

QUESTIONS = [("367", 1), ("406", 1), ("500", 2)]


class TwoPages:
    """An answer whose second page does not come at the first try."""

    def __init__(self, rows: Sequence[str], has_second: bool) -> None:
        self._rows, self._has_second = rows, has_second

    def __iter__(self) -> Iterator[str]:
        yield from self._rows[:1]
        if not self._has_second:
            raise OperationTimedOut()
        yield from self._rows[1:]


class Node:
    """In the place of the driver's execute_concurrent: the first `silent` tries of store 406 fail
    with `error`, or with half an answer without one."""

    def __init__(self, silent: int, error: Exception | None) -> None:
        self._silent, self._error = silent, error
        self.tried = Counter[str]()

    def __call__(
        self, _session: Any, tries: Sequence[tuple[Any, Any]], **_options: Any
    ) -> list[ExecutionResult]:
        return [self._answer(*values) for _, values in tries]

    def _answer(self, store: str, day: int) -> ExecutionResult:
        self.tried[store] += 1
        answers = store != "406" or self.tried[store] > self._silent
        if not answers and self._error:
            return ExecutionResult(False, self._error)
        return ExecutionResult(True, TwoPages([f"{store} {day}", "more"], answers))


def asked(node: Node, monkeypatch: pytest.MonkeyPatch, seconds: float = 5.0) -> list[list[str]]:
    """The answers to the questions."""
    monkeypatch.setattr(writes, "execute_concurrent", node)
    nobody: Any = None
    return read_many(nobody, nobody, QUESTIONS, seconds)


TIMED_OUT, TOO_FEW = ReadTimeout("slow"), Unavailable("one of three")


@pytest.mark.parametrize("error", [OperationTimedOut(), TIMED_OUT, TOO_FEW, None])
def test_only_what_has_no_answer_is_asked_again_and_the_order_stays(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(2, error)

    found = asked(node, monkeypatch)

    assert found == [["367 1", "more"], ["406 1", "more"], ["500 2", "more"]]
    assert node.tried == {"367": 1, "406": 3, "500": 1}


def test_question_that_is_never_answered_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(
        CassandraTimeout, match=r"^Cassandra: 1 questions were not answered \(.*\); look"
    ):
        asked(Node(1_000, OperationTimedOut()), monkeypatch, 0.3)


def test_error_that_no_repetition_mends_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(1, InvalidRequest("no such table"))

    with pytest.raises(InvalidRequest, match="no such table"):
        asked(node, monkeypatch)

    assert node.tried["406"] == 1
