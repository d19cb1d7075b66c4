"""Converts the times that a till has written by its store's clock to instants."""

from collections.abc import Sequence
from datetime import datetime

from ingest.installation.arrival import Rules
from tally.errors import BadInstant
from tally.time.instants import format_utc, instants_at_local_time, parse_instant


def resolve_times(
    times: Sequence[str], store: str | None, rules: Rules, arrived_at: datetime
) -> list[str]:
    """The times of one till, in the order of its receipts, each with its offset.

    In the night in which clocks are set back an hour occurs twice. Which of the two instants is
    meant follows from the receipts before and after it, because no till goes back in time, and
    from the arrival, because no receipt is later. A time that stays ambiguous is returned as it was
    written.

    Without an offset: 01:58, 02:05, 02:40, 02:10, 02:50, 03:05. Between 02:40 and 02:10 the clock
    was set back.
    """
    latest = arrived_at + rules.future_tolerance
    readings = [_instants(time_text, store, rules) for time_text in times]
    # An instant in the future was not meant, unless no other is possible.
    possible = [
        [instant for instant in instants if instant <= latest] or instants for instants in readings
    ]
    first, last = _bounds(possible)
    return [
        format_utc(low) if low is not None and low == high else time_text
        for time_text, low, high in zip(times, first, last, strict=True)
    ]


def _bounds(
    possible: Sequence[Sequence[datetime]],
) -> tuple[list[datetime | None], list[datetime | None]]:
    """The earliest and latest possible instant of each time, in an order that never goes back."""
    first: list[datetime | None] = []
    # The lower bound set by the earlier receipts.
    reached: datetime | None = None
    for instants in possible:
        low = min(
            (instant for instant in instants if reached is None or instant >= reached), default=None
        )
        # An unambiguous instant stands, even if it is earlier: bodies repeat receipts.
        first.append(instants[0] if len(instants) == 1 else low)
        reached = first[-1] or reached
    last: list[datetime | None] = []
    until: datetime | None = None
    for instants in reversed(possible):
        high = max(
            (instant for instant in instants if until is None or instant <= until), default=None
        )
        last.append(instants[0] if len(instants) == 1 else high)
        until = last[-1] or until
    return first, last[::-1]


def _instants(time_text: str, store: str | None, rules: Rules) -> list[datetime]:
    """The possible instants of a time: one, in that night two, none if it cannot be read."""
    try:
        return [parse_instant(time_text, "")]
    except BadInstant as error:
        if error.kind != "without_zone":
            return []
    try:
        zone = rules.store_zone(store or "")
        return instants_at_local_time(datetime.fromisoformat(time_text), zone)
    except ValueError:
        return []
