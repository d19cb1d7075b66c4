"""What the serving tables answer, window by window.

All rows of both layers are merged by the rule of tally/algebra/merge.py.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date
from typing import Any

from cassandra.cluster import Session

from ops.audit.master import WindowKey
from ops.oracle.complete_journey import Scope, Totals
from tally.algebra.merge import Axes, MergedWindow, Parts, WindowState
from tally.families import Family
from tally.generation import GENERATION_COLUMNS, Generation, generation_of

_FETCH = 10_000


def merged_windows(session: Session, scope: Scope, family: Family) -> dict[WindowKey, MergedWindow]:
    """Every (store, window start in UTC) that either layer holds, merged as readers see it."""
    speed, batch = speed_windows(session, scope, family), batch_windows(session, scope, family)
    return {
        # Only windows with a row are looked at: what is covered without one is a zero, and compares
        # as none.
        key: family.kind.merge(
            family.parts,
            speed.get(key),
            batch.get(key),
            covered=False,
        )
        for key in speed.keys() | batch.keys()
    }


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
        sum(part["gross_minor"] - part["returns_minor"] - part["voids_minor"] for part in parts),
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
    by_window: dict[WindowKey, list[Any]] = defaultdict(list)
    for row in rows:
        key = (row.store_id, row.window_start.replace(tzinfo=UTC))
        if scope.holds(*key):
            by_window[key].append(row)
    excluded = list(zip(family.part_names, family.excluded_parts, strict=True))
    return {key: _state(window, family, excluded) for key, window in by_window.items()}


def _state(
    rows: list[Any], family: Family, excluded_parts: Iterable[tuple[str, str]]
) -> WindowState:
    """The rows of one window (one for each axes value) as one state.

    Speed rows have no excluded columns.
    """
    values: dict[Axes, Parts] = {}
    excluded: dict[Axes, Parts] = {}
    for row in rows:
        axes = tuple(getattr(row, axis) for axis in family.axes)
        values[axes] = {part: getattr(row, part) for part in family.part_names}
        excluded[axes] = {part: getattr(row, name, 0) for part, name in excluded_parts}
    return WindowState(rows[0].epoch, rows[0].events, values, excluded)
