"""What a POS or people counter message adds to its window, in plain integers and decimals:
nothing of Tally takes part."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

QUARTER = timedelta(minutes=15)
DECIMALS = {"JPY": 0, "BHD": 3}
# receipts, gross, returns, voids (minor units), units (thousandths)
Parts = tuple[int, ...]
Cell = tuple[
    str, datetime, str
]  # store, start of the quarter hour in UTC, currency ("" for people)


@dataclass(frozen=True)
class Event:
    """One message: who it is, the cell that it belongs to, and what it adds there."""

    identity: tuple[str, ...]
    cell: Cell
    parts: Parts


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
    number = (
        str(fields["vendor_fiscal_module"]),
        str(fields.get("numbering_epoch", "0")),
        str(fields["transaction_id"]),
    )
    lines = [(_minor(line, currency), Decimal(line["amount"])) for line in fields["transactions"]]
    cell = (store, quarter(datetime.fromisoformat(fields["happened_at"])), currency)
    return Event((store, *number), cell, _parts(fields.get("kind", "sale"), lines))


def _minor(line: Mapping[str, Any], currency: str) -> int:
    total = (
        Decimal(line["total"])
        if "total" in line
        else Decimal(line["price"]) * Decimal(line["amount"])
    )
    return int((total * 10 ** DECIMALS.get(currency, 2)).quantize(Decimal(1), ROUND_HALF_EVEN))


def _parts(kind: str, lines: Iterable[tuple[int, Decimal]]) -> Parts:
    lines = list(lines)
    everything = sum(abs(minor) for minor, _ in lines)
    if kind == "return":
        return 0, 0, everything, 0, -sum(_thousandths(abs(amount)) for _, amount in lines)
    if kind == "void":
        return 0, 0, 0, everything, 0
    back = sum(abs(minor) for minor, amount in lines if minor < 0 or amount < 0)
    sold = sum(minor for minor, amount in lines if minor >= 0 and amount >= 0)
    return 1, sold, back, 0, sum(_thousandths(amount) for _, amount in lines)


def _thousandths(amount: Decimal) -> int:
    return int(amount * 1000)


def _interval(fields: Mapping[str, Any]) -> Event:
    instant = datetime.fromisoformat(fields["happened_at"])
    identity = (
        str(fields["store_id"]),
        str(fields["device_id"]),
        instant.astimezone(UTC).isoformat(),
    )
    return Event(
        identity,
        (str(fields["store_id"]), quarter(instant), ""),
        (fields["in"], fields["out"], fields["passers_by"]),
    )


def counted_once(events: Iterable[Event]) -> dict[Cell, Parts]:
    """The final truth, of events in order of arrival: of each identity the first counts,
    whatever came later and where."""
    seen: set[tuple[str, ...]] = set()
    first: list[Event] = []
    for event in events:
        if event.identity not in seen:
            seen.add(event.identity)
            first.append(event)
    return _summed(first)


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
