"""A Cassandra session without a node: statements are bound by the driver, and kept as they would
travel."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from cassandra import ProtocolVersion
from cassandra.concurrent import ExecutionResult
from cassandra.protocol import ColumnMetadata
from cassandra.query import PreparedStatement

# The statement's text, and its values as bytes.
Written = tuple[str, tuple[bytes | None, ...]]


class UnpluggedSession:
    """Of one node; every statement has columns of the `types`. What fails is said by `failing`:
    that many tries of each batch end with `error`."""

    keyspace = "tally"

    def __init__(
        self, types: Sequence[Any], failing: int = 0, error: Exception | None = None
    ) -> None:
        self.cluster = SimpleNamespace(metadata=SimpleNamespace(all_hosts=lambda: ["node"]))
        self.batches: list[list[Written]] = []
        self._types, self._failing, self._error = types, failing, error

    def prepare(self, text: str) -> PreparedStatement:
        columns = [
            ColumnMetadata(self.keyspace, "rows", f"column_{number}", kind)
            for number, kind in enumerate(self._types)
        ]
        return PreparedStatement(
            columns, text.encode(), [0], text, self.keyspace, ProtocolVersion.V4, [], None
        )

    def execute_concurrent(self, _session: Any, tries: Any, **_options: Any) -> list[Any]:
        """In the place of the driver's: one outcome for each batch."""
        if self._failing:
            self._failing -= 1
            return [ExecutionResult(False, self._error) for _ in tries]
        for batch, _ in tries:
            assert batch.is_idempotent
            self.batches.append(
                [
                    (text.decode(), tuple(values))
                    for _, text, values in batch._statements_and_parameters
                ]
            )
        return [ExecutionResult(True, None) for _ in tries]

    @property
    def written(self) -> list[Written]:
        """Every statement that was acknowledged, in order."""
        return [one for batch in self.batches for one in batch]
