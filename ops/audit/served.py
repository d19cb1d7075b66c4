"""What the serving tables answer, window by window.

All rows of both layers are merged by the rule of tally/algebra/merge.py.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from cassandra.cluster import Session

from ops.audit.master import WindowKey
from ops.oracle.complete_journey import Scope, Totals
from tally.algebra.merge import Axes, MergedWindow, WindowState, window_state
from tally.algebra.parts import Value
from tally.families import Family
from tally.generation import GENERATION_COLUMNS, Generation, generation_of

_FETCH = 10_000
# What net revenue is less of.
_LESS = ("discounts_minor", "returns_minor", "voids_minor")


def merged_windows(session: Session, scope: Scope, family: Family) -> dict[WindowKey, MergedWindow]:
    """Every (store, window start in UTC) that either layer holds, merged as readers see it."""
    published = published_claims(session, family)
    speed = speed_windows(session, scope, family)
    batch = batch_windows(session, scope, family, published)
    merged = {}
    # Only windows with a row are looked at: what is covered without one is a zero, and compares as
    # none.
    for key in speed.keys() | batch.keys():
        start, held = key[1], batch.get(key)
        claim = published.get(start.date())
        merged[key] = family.kind.merge(
            family.parts,
            speed.get(key),
            # What a reader believes of a covered window without a row is a state too.
            held if claim is None else claim.state_of(start, held),
            is_covered(published, start),
        )
    return merged


def is_covered(published: Mapping[date, Generation], start: datetime) -> bool:
    """Whether the generation of the window's day (UTC) covers the window."""
    claim = published.get(start.date())
    return claim is not None and claim.covers(start)


def speed_windows(session: Session, scope: Scope, family: Family) -> dict[WindowKey, WindowState]:
    """The speed layer's rows by (store, window start in UTC)."""
    return _states(_all_rows(session, family.speed_table), scope, family)


def batch_windows(
    session: Session,
    scope: Scope,
    family: Family,
    claims: Mapping[date, Generation] | None = None,
) -> dict[WindowKey, WindowState]:
    """The published generations' rows by (store, window start in UTC), by the claims if given.

    Rows of other generations are not served.
    """
    published = published_claims(session, family) if claims is None else claims
    rows = _all_rows(session, family.batch_table)
    return _states((row for row in rows if _is_served(row, published)), scope, family)


def published_claims(session: Session, family: Family) -> dict[date, Generation]:
    """What the pointer says of each UTC day."""
    rows = session.execute(
        f"SELECT {GENERATION_COLUMNS} FROM batch_pointer WHERE family = %s", [family.name]
    )
    dated = (row for row in rows if row.day is not None)
    return {row.day.date(): generation_of(row) for row in dated}


def _is_served(row: Any, published: Mapping[date, Generation]) -> bool:
    claim = published.get(row.day.date())
    # The table keeps every generation that was ever written, also of runs that never flipped.
    return claim is not None and claim.generation == row.generation


def totals(window: MergedWindow) -> Totals:
    """Receipts, net cents and units of one merged window.

    All currencies are taken together; the real data has one.
    """
    parts = list((window.values or {}).values())
    return Totals(
        sum(part["receipts"] for part in parts),
        sum(part["gross_minor"] - sum(part[less] for less in _LESS) for part in parts),
        sum(part["units_milli"] for part in parts),
    )


def _all_rows(session: Session, table: str) -> Iterator[Any]:
    # The name comes from a source's descriptor, which takes nothing but letters and digits.
    statement = session.prepare(f"SELECT * FROM {table}")
    statement.fetch_size = _FETCH
    # A whole table: there is no time after which it has taken too long.
    page = session.execute(statement, timeout=None)
    while page.has_more_pages:
        # Cassandra reads the next page while this one is looked at.
        page.response_future.start_fetching_next_page()
        yield from page.current_rows
        page = page.response_future.result()
    yield from page.current_rows


def _states(
    rows: Iterable[Any],
    scope: Scope,
    family: Family,
) -> dict[WindowKey, WindowState]:
    by_window: dict[WindowKey, list[_AuditedRow]] = defaultdict(list)
    for row in rows:
        key = (row.store_id, row.window_start.replace(tzinfo=UTC))
        if scope.holds(*key):
            by_window[key].append(_row(row, family))
    return {key: window_state(family.parts, window) for key, window in by_window.items()}


class _AuditedRow(NamedTuple):
    """A row of either layer, as the merge rule wants it."""

    axes: Axes
    epoch: int
    events: int
    parts: tuple[Value, ...]
    excluded: tuple[Value, ...]


def _row(row: Any, family: Family) -> _AuditedRow:
    axes, parts = (
        tuple(getattr(row, name) for name in names) for names in (family.axes, family.part_names)
    )
    # Speed rows have no such columns.
    excluded = tuple(getattr(row, name, None) for name in family.excluded_parts)
    return _AuditedRow(axes, row.epoch, row.events, parts, excluded)
