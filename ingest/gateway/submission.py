"""The body of a request: its lines, checked one by one against the contract of their topic."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ingest.normaliser.arrival import Arrival, Rules
from ingest.normaliser.interval import normalised_interval
from ingest.normaliser.receipt import normalised_receipt
from tally.errors import RejectedEvent
from tally.events import CanonicalInterval, CanonicalReceipt

MOST_LINES = 10_000
MOST_BYTES = 5 * 1024 * 1024
# Fields whose wrong type is best said as "not a number".
_NUMBERS = frozenset(("price", "amount", "total", "in", "out", "passers_by", "interval_seconds"))


@dataclass(frozen=True)
class Entrance:
    """One kind of message: its path, schema name and raw topic, and the check that the normaliser makes too."""

    path: str
    schema: str
    topic: str
    check: Callable[[bytes | None, Arrival, Rules], CanonicalReceipt | CanonicalInterval]


ENTRANCES = (
    Entrance("/v1/events/pos", "pos", "posTransactionTopic", normalised_receipt),
    Entrance("/v1/events/traffic", "raw-traffic", "raw-traffic", normalised_interval),
)


@dataclass
class Checked:
    """Good messages as (store id, original bytes), and what was wrong with the others, by line from 1."""

    good: list[tuple[str, bytes]] = field(default_factory=list)
    rejected: list[tuple[int, RejectedEvent]] = field(default_factory=list)

    def rejections(self) -> list[dict[str, Any]]:
        """The rejected lines as the answer shows them."""
        return [{"line": line, "errors": [shown_error(error)]} for line, error in self.rejected]


def lines_of(body: bytes, is_ndjson: bool) -> list[tuple[int, bytes]]:
    """Line number and message of each line with something on it; a body that is no NDJSON is one line."""
    if not is_ndjson:
        return [(1, body)]
    numbered = ((number, line.strip()) for number, line in enumerate(body.split(b"\n"), start=1))
    return [(number, line) for number, line in numbered if line]


def checked(lines: list[tuple[int, bytes]], entrance: Entrance, arrival: Arrival, rules: Rules) -> Checked:
    """Each line checked as the normaliser will check it on arrival."""
    result = Checked()
    for number, line in lines:
        try:
            result.good.append((entrance.check(line, arrival, rules).store_id, line))
        except RejectedEvent as error:
            result.rejected.append((number, error))
    return result


def shown_error(error: RejectedEvent) -> dict[str, str]:
    """Field, code and message of what was wrong."""
    is_number = error.reason == "wrong_type" and error.field.rpartition("/")[2] in _NUMBERS
    return {"field": error.field, "code": "not_a_number" if is_number else error.reason, "message": error.message}
