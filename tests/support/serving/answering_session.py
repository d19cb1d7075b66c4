"""A Cassandra session without a node whose concurrent reads and writes go unanswered at first."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from cassandra import OperationTimedOut
from cassandra.concurrent import ExecutionResult
from cassandra.query import BatchStatement, PreparedStatement

from tests.support.serving.unplugged_session import UnpluggedSession

Answer = Callable[[tuple[Any, ...]], Sequence[Any]]


class AnsweringSession(UnpluggedSession):
    """As UnpluggedSession; a question is answered by `answer`, from its values.

    The first `silent` tries of each question have no answer.
    """

    def __init__(
        self, types: Sequence[Any], answer: Answer, silent: int = 0, failing: int = 0
    ) -> None:
        super().__init__(types, failing, OperationTimedOut())
        self._answer, self._silent = answer, silent
        self.asked = Counter[tuple[Any, ...]]()

    def prepare(self, text: str) -> PreparedStatement:
        statement = super().prepare(text)
        # Of fewer marks than there are types the first ones are meant.
        statement.column_metadata = statement.column_metadata[: text.count("?")]
        return statement

    def execute_concurrent(self, _session: Any, tries: Any, **options: Any) -> list[Any]:
        """In the place of the driver's."""
        found = []
        for one in tries:
            if isinstance(one[0], BatchStatement):
                found += super().execute_concurrent(_session, [one], **options)
            else:
                found.append(self._read(tuple(map(_hashable, one[1])), one[1]))
        return found

    def _read(self, key: tuple[Any, ...], values: tuple[Any, ...]) -> ExecutionResult:
        self.asked[key] += 1
        if self.asked[key] <= self._silent:
            return ExecutionResult(False, OperationTimedOut())
        return ExecutionResult(True, self._answer(values))


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
