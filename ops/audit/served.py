"""What the serving tables answer, window by window: all rows of both layers, merged by the rule of tally/merge.py."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from cassandra.cluster import Session

from ops.oracle.complete_journey import Scope, Totals
from tally.families import SALES
from tally.merge import Axes, MergedWindow, Parts, WindowState, merge_window

Key = tuple[str, datetime]
_FETCH = 10_000


def merged_windows(session: Session, scope: Scope) -> dict[Key, MergedWindow]:
    """Every (store, window) of sales that either layer holds, merged as a reader would see it."""
    speed, batch = speed_windows(session, scope), batch_windows(session, scope)
    return {key: merge_window(speed.get(key), batch.get(key), covered=False) for key in speed.keys() | batch.keys()}


def speed_windows(session: Session, scope: Scope) -> dict[Key, WindowState]:
    """The speed layer's rows by (store, window)."""
    return _states(_all_rows(session, SALES.speed_table), scope)


def batch_windows(session: Session, scope: Scope) -> dict[Key, WindowState]:
    """The published generation's rows by (store, window); rows of other generations are not served and left out."""
    pointers = session.execute("SELECT day, generation FROM batch_pointer WHERE family = %s", [SALES.name])
    published = {(str(row.day), row.generation) for row in pointers}
    rows = _all_rows(session, SALES.batch_table)
    return _states((row for row in rows if (str(row.day), row.generation) in published), scope)


def totals(window: MergedWindow) -> Totals:
    """Receipts, net cents and units of one merged window; all currencies together (the real data has one)."""
    parts = list((window.values or {}).values())
    return Totals(
        sum(part["receipts"] for part in parts),
        sum(part["gross_minor"] - part["returns_minor"] - part["voids_minor"] for part in parts),
        sum(part["units_milli"] for part in parts),
    )


def _all_rows(session: Session, table: str) -> Iterable[Any]:
    statement = session.prepare(f"SELECT * FROM {table}")  # the name comes from tally/families.py
    statement.fetch_size = _FETCH
    return session.execute(statement, timeout=None)  # type: ignore[no-any-return]


def _states(rows: Iterable[Any], scope: Scope) -> dict[Key, WindowState]:
    by_window: dict[Key, list[Any]] = defaultdict(list)
    for row in rows:
        key = (row.store_id, row.window_start.replace(tzinfo=UTC))
        if scope.holds(*key):
            by_window[key].append(row)
    return {key: _state(window) for key, window in by_window.items()}


def _state(rows: list[Any]) -> WindowState:
    """The rows of one window (one for each currency) as one state; speed rows have no excluded columns."""
    values: dict[Axes, Parts] = {(row.currency,): {part: getattr(row, part) for part in SALES.parts} for row in rows}
    pairs = list(zip(SALES.parts, SALES.excluded_parts, strict=True))
    excluded: dict[Axes, Parts] = {(row.currency,): {part: getattr(row, name, 0) for part, name in pairs} for row in rows}
    return WindowState(rows[0].epoch, rows[0].events, values, excluded)
