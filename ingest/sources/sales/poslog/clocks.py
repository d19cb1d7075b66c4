"""Which instants the times of a body are that a till has written by its store's clock."""

from collections.abc import Sequence
from datetime import datetime

from ingest.contract.arrival import Rules
from tally.errors import BadInstant
from tally.instants import instant_text, instants_showing, parse_instant


def resolve_times(
    times: Sequence[str], store: str | None, rules: Rules, arrived_at: datetime
) -> list[str]:
    """The times of one till, in the order of its receipts, each with its offset.

    In the night in which clocks are set back an hour comes twice. Which of the two instants is
    meant is told by the receipts before and after it, for no till goes back in time, and by the
    arrival, which no receipt is behind. A time of which they do not tell stays as it was written.

    Without an offset: 01:58, 02:05, 02:40, 02:10, 02:50, 03:05. Between 02:40 and 02:10 the clock
    was set back.
    """
    latest = arrived_at + rules.future_tolerance
    readings = [_instants(said, store, rules) for said in times]
    # What lies ahead was not meant, unless nothing else could be.
    possible = [[one for one in found if one <= latest] or found for found in readings]
    first, last = _bounds(possible)
    return [
        instant_text(low) if low is not None and low == high else said
        for said, low, high in zip(times, first, last, strict=True)
    ]


def _bounds(
    possible: Sequence[Sequence[datetime]],
) -> tuple[list[datetime | None], list[datetime | None]]:
    """The earliest and the latest instant that each may be, in an order that never goes back."""
    first: list[datetime | None] = []
    # The lower bound that the receipts before it set.
    reached: datetime | None = None
    for found in possible:
        low = min((one for one in found if reached is None or one >= reached), default=None)
        # One alone is what it is, whatever stands before it: bodies repeat receipts.
        first.append(found[0] if len(found) == 1 else low)
        reached = first[-1] or reached
    last: list[datetime | None] = []
    until: datetime | None = None
    for found in reversed(possible):
        high = max((one for one in found if until is None or one <= until), default=None)
        last.append(found[0] if len(found) == 1 else high)
        until = last[-1] or until
    return first, last[::-1]


def _instants(said: str, store: str | None, rules: Rules) -> list[datetime]:
    """The instants that a time may be: one, in that night two, none if it cannot be read."""
    try:
        return [parse_instant(said, "")]
    except BadInstant as error:
        if error.kind != "without_zone":
            return []
    try:
        zone = rules.zone_of(store or "")
        return instants_showing(datetime.fromisoformat(said), zone)
    except ValueError:
        return []
