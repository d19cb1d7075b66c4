"""What a POS or people counter message adds to its window, in plain integers and decimals:
nothing of Tally takes part."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any, TypeVar

from tests.support.oracles.pos_oracle import parts_of, rule_of

QUARTER = timedelta(minutes=15)
Value = TypeVar("Value")
# As tests/support/oracles/pos_oracle.py has them; in, out, passers-by, and in beside these.
Parts = tuple[int, ...]
Cell = tuple[
    str, datetime, str
]  # store, start of the quarter hour in UTC, currency ("" for people)


@dataclass(frozen=True)
class Event:
    """One message: who it is, the cell that it belongs to, what it adds there, and whom it takes
    back."""

    identity: tuple[str, ...]
    cell: Cell
    parts: Parts
    takes_back: tuple[str, ...] | None = None


def quarter(instant: datetime) -> datetime:
    """Start of the quarter hour, UTC."""
    seconds = int(instant.timestamp())
    return datetime.fromtimestamp(seconds - seconds % 900, UTC)


def event_of(message: bytes) -> Event:
    """The event that a well-formed message is; a receipt without currency is in dollars."""
    fields = json.loads(message, parse_float=Decimal)
    return _interval(fields) if "device_id" in fields else _receipt(fields)


def _receipt(fields: Mapping[str, Any]) -> Event:
    store, currency = str(fields["operation_id"]), fields.get("currency", "USD")
    instant = quarter(datetime.fromisoformat(fields["happened_at"]))
    voids = fields.get("voids") if fields.get("kind") == "void" else None
    if voids is None or rule_of(fields):
        # Each version of a receipt that is left out is one of its own.
        left_out = f"{rule}:{sorted(fields.items(), key=str)}" if (rule := rule_of(fields)) else ""
        number = (*_number(fields), left_out)
        return Event((store, *number), (store, instant, currency), parts_of(fields))
    if "happened_at" in voids:
        instant = quarter(datetime.fromisoformat(voids["happened_at"]))
    taken = (store, *_number(voids), "")
    return Event(("void", *taken), (store, instant, currency), parts_of(fields), taken)


def _number(fields: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        str(fields["vendor_fiscal_module"]),
        str(fields.get("numbering_epoch", "0")),
        str(fields["transaction_id"]),
    )


def _interval(fields: Mapping[str, Any]) -> Event:
    instant = datetime.fromisoformat(fields["happened_at"])
    identity = (
        str(fields["store_id"]),
        str(fields["device_id"]),
        instant.astimezone(UTC).isoformat(),
    )
    entries, exits = fields["in"], fields["out"]
    outside = (fields["passers_by"], entries) if "passers_by" in fields else (0, 0)
    store = str(fields["store_id"])
    return Event(identity, (store, quarter(instant), ""), (entries, exits, *outside))


def shares_of(message: bytes) -> list[Event]:
    """What an interval of any length adds to each quarter hour that it touches: up to each border
    the whole number of persons nearest to an even flow."""
    whole, fields = event_of(message), json.loads(message)
    begins = datetime.fromisoformat(fields["happened_at"])
    length = timedelta(seconds=fields["interval_seconds"])
    found, told = [], [0] * len(whole.parts)
    start = quarter(begins)
    while start < begins + length:
        elapsed = Fraction(min(start + QUARTER - begins, length) / length).limit_denominator(10**6)
        so_far = [floor(count * elapsed + Fraction(1, 2)) for count in whole.parts]
        parts = tuple(now - before for now, before in zip(so_far, told, strict=True))
        identity = (*whole.identity, start.isoformat())
        found.append(Event(identity, (whole.cell[0], start, ""), parts))
        told, start = so_far, start + QUARTER
    return found


def counted_once(events: Iterable[Event]) -> dict[Cell, Parts]:
    """The final truth, of events in order of arrival: of each identity the first counts,
    whatever came later and where; what is taken back adds nothing, nor does what takes it back."""
    seen: set[tuple[str, ...]] = set()
    first: list[Event] = []
    for event in events:
        if event.identity not in seen:
            seen.add(event.identity)
            first.append(event)
    taken = {event.takes_back for event in first}
    return _summed(
        event for event in first if event.takes_back is None and event.identity not in taken
    )


def counted_by_window(events: Iterable[Event]) -> dict[Cell, Parts]:
    """What can be known of a window alone: of each identity the first in that quarter hour
    counts."""
    first: dict[tuple[Any, ...], Event] = {}
    for event in events:
        first.setdefault((event.identity, event.cell[1]), event)
    return _summed(first.values())


def _summed(events: Iterable[Event]) -> dict[Cell, Parts]:
    """The sums of each cell; one that adds up to nothing at all is left out."""
    found: dict[Cell, list[Parts]] = defaultdict(list)
    for event in events:
        found[event.cell].append(event.parts)
    sums = {cell: tuple(map(sum, zip(*held, strict=True))) for cell, held in found.items()}
    return {cell: parts for cell, parts in sums.items() if any(parts)}


def differences(
    held: Mapping[Cell, Value], expected: Mapping[Cell, Value]
) -> dict[Cell, tuple[Value | None, Value | None]]:
    """Cells that differ, with what is held and what is expected."""
    return {
        cell: (held.get(cell), expected.get(cell))
        for cell in held.keys() | expected.keys()
        if held.get(cell) != expected.get(cell)
    }
