"""The body of a request: its lines, checked one by one against the contract of their topic."""

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ingest.normaliser.arrival import Arrival, Rules
from ingest.normaliser.interval import normalised_interval
from ingest.normaliser.receipt import normalised_receipt
from tally.errors import RejectedEvent, TallyError
from tally.events import CanonicalInterval, CanonicalReceipt

MOST_LINES = 10_000
MOST_BYTES = 5 * 1024 * 1024
# Each store and day is work of its own further on (rows, files, rebuilds): a request may not make
# thousands of it.
MOST_STORES = MOST_DAYS = 64
# Rejected lines that an answer shows, and the longest text of one of their fields: at most 64 KiB
# for any body.
MOST_SHOWN = 100
_MOST_TEXT = 250
# Fields whose wrong type is best said as "not a number".
_NUMBERS = frozenset(("price", "amount", "total", "in", "out", "passers_by", "interval_seconds"))


class TooMuch(TallyError):
    """Raised when a body is beyond a limit; nothing of it was stored."""


@dataclass(frozen=True)
class Entrance:
    """One kind of message: its path, schema name and raw topic, and its check.

    The normaliser makes that check too.
    """

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
    """The good messages of a body, and what was wrong with the others.

    Good ones as (store id, original bytes); of the others their number and what was wrong with the
    first, by line from 1.
    """

    good: list[tuple[str, bytes]] = field(default_factory=list)
    rejected: list[tuple[int, RejectedEvent]] = field(default_factory=list)
    rejected_count: int = 0

    def reject(self, number: int, error: RejectedEvent) -> None:
        """Counts one more, and keeps it among the first."""
        self.rejected_count += 1
        if self.rejected_count <= MOST_SHOWN:
            # The traceback would hold the decoded message in memory.
            self.rejected.append((number, error.with_traceback(None)))

    def outcome(self) -> dict[str, Any]:
        """`accepted`, `rejected` by line, and `rejected_count` where not every one is shown."""
        shown = [{"line": line, "errors": [shown_error(error)]} for line, error in self.rejected]
        count = {"rejected_count": self.rejected_count} if self.rejected_count > len(shown) else {}
        return {"accepted": len(self.good), "rejected": shown, **count}


def lines_of(body: bytes, is_ndjson: bool) -> Iterator[tuple[int, bytes]]:
    """Line number and message of each line with something on it.

    A body that is no NDJSON is one line. Raises TooMuch.
    """
    if not is_ndjson:
        return iter([(1, body)])
    # Counted before anything is made of a line: five million empty ones are 250 MB of objects.
    if (lines := body.count(b"\n") + (not body.endswith(b"\n"))) > MOST_LINES:
        raise TooMuch(
            f"the body has {lines:,} lines; at most {MOST_LINES:,} are taken at once,"
            " send it in parts"
        )
    stripped = ((number, line.strip()) for number, line in enumerate(io.BytesIO(body), start=1))
    return ((number, line) for number, line in stripped if line)


def checked(
    lines: Iterable[tuple[int, bytes]], entrance: Entrance, arrival: Arrival, rules: Rules
) -> Checked:
    """Each line checked as the normaliser will check it on arrival. Raises TooMuch."""
    result = Checked()
    stores: set[str] = set()
    days: set[str] = set()
    for number, line in lines:
        try:
            event = entrance.check(line, arrival, rules)
        except RejectedEvent as error:
            result.reject(number, error)
            continue
        stores.add(event.store_id)
        days.add(event.happened_at[:10])
        _refuse_spread(stores, days)
        result.good.append((event.store_id, line))
    return result


def _refuse_spread(stores: set[str], days: set[str]) -> None:
    if len(stores) > MOST_STORES:
        raise TooMuch(
            f"the body has messages of more than {MOST_STORES} stores;"
            " send those of fewer stores at once"
        )
    if len(days) > MOST_DAYS:
        raise TooMuch(
            f"the body has messages of more than {MOST_DAYS} days (UTC);"
            " send those of fewer days at once"
        )


def shown_error(error: RejectedEvent) -> dict[str, str]:
    """Field, code and message of what was wrong."""
    is_number = error.reason == "wrong_type" and error.field.rpartition("/")[2] in _NUMBERS
    code = "not_a_number" if is_number else error.reason
    return {"field": _cut(error.field), "code": code, "message": _cut(error.message)}


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"
