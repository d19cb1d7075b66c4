"""A Kafka producer without a broker whose queue takes a single record."""

from collections.abc import Callable
from typing import Any

Report = Callable[[Any, Any], None]
Sent = tuple[str, str | bytes | None, int, bytes, dict[str, bytes]]


class FullProducer:
    """Takes a record only when it was polled since the last one; reports on each with the error
    given, and leaves `unanswered` of them without a report."""

    def __init__(self, error: Any = None, unanswered: int = 0) -> None:
        self.sent: list[Sent] = []
        self._error, self._unanswered = error, unanswered
        self._has_room = False
        self._reports: list[tuple[Report, Sent]] = []

    def produce(
        self, topic: str, value: bytes, *rest: Any, headers: list[tuple[str, bytes]] | None
    ) -> None:
        key, partition, report = rest
        if not self._has_room:
            raise BufferError
        self._has_room = False
        self.sent.append((topic, key, partition, value, dict(headers or ())))
        self._reports.append((report, self.sent[-1]))

    def poll(self, _seconds: float) -> int:
        self._has_room = True
        return 0

    def flush(self, _seconds: float) -> int:
        answered, self._reports = self._reports[self._unanswered :], []
        for report, sent in answered:
            report(self._error, sent)
        return self._unanswered
