"""The contents of the serving tables by window, merged by the rule of tally/algebra/merge.py."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple

from cassandra.cluster import Session

from ops.audit.master import WindowKey
from ops.oracle import Scope, Totals
from tally.algebra.merge import Axes, MergedWindow, WindowState, window_state
from tally.algebra.parts import Value
from tally.families.family import Family
from tally.families.generation import GENERATION_COLUMNS, Generation, parse_generation
from tally.time.instants import assume_utc

_FETCH = 10_000
# The amounts that are subtracted from gross revenue to get net revenue.
_LESS = ("discounts_minor", "returns_minor", "voids_minor")


class _AuditedRow(NamedTuple):
    """A row of either layer in the form that the merge rule takes."""

    axes: Axes
    epoch: int
    events: int
    parts: tuple[Value, ...]
    excluded: tuple[Value, ...]


def merge_windows(session: Session, scope: Scope, family: Family) -> dict[WindowKey, MergedWindow]:
    """The merged windows that readers see, by (store, window start in UTC) in either layer."""
    published = read_claims(session, family)
    speed = speed_windows(session, scope, family)
    batch = batch_windows(session, scope, family, published)
    merged = {}
    # Only windows with a row are merged: a covered window without a row is a zero, which compares
    # like an absent window.
    for key in speed.keys() | batch.keys():
        start, batch_state = key[1], batch.get(key)
        claim = published.get(start.date())
        merged[key] = family.kind.merge(
            family.parts,
            speed.get(key),
            # A covered window without a row has a state for readers too.
            batch_state if claim is None else claim.resolve_state(start, batch_state),
            is_covered(published, start),
        )
    return merged


def is_covered(published: Mapping[date, Generation], start: datetime) -> bool:
    """Whether the generation of the window's day (UTC) covers the window."""
    claim = published.get(start.date())
    return claim is not None and claim.covers(start)


def speed_windows(session: Session, scope: Scope, family: Family) -> dict[WindowKey, WindowState]:
    """The speed layer's rows by (store, window start in UTC)."""
    return _window_states(_all_rows(session, family.speed_table), scope, family)


def batch_windows(
    session: Session, scope: Scope, family: Family, published: Mapping[date, Generation]
) -> dict[WindowKey, WindowState]:
    """The published generations' rows by (store, window start in UTC); others are not served."""

    # The table also has rows of runs that never moved the pointer.
    counting = read_published(session, family)
    newest: dict[tuple[Any, ...], Any] = {}
    for row in _all_rows(session, family.batch_table):
        day = row.day.date()
        claim = published.get(day)
        if claim is None or row.generation > claim.generation:
            continue
        if row.generation != claim.generation and row.generation not in counting[day]:
            continue
        key = (row.store_id, *(getattr(row, name) for name in family.row_key))
        if key not in newest or newest[key].generation < row.generation:
            newest[key] = row
    # A version without events says that there is no row any more.
    rows = (row for row in newest.values() if row.events is not None)
    return _window_states(rows, scope, family)


def read_published(session: Session, family: Family) -> dict[date, set[int]]:
    """All generations that were ever published of each UTC day."""
    found: dict[date, set[int]] = defaultdict(set)
    for row in _all_rows(session, "batch_pointer_history"):
        if row.family == family.name:
            found[row.day.date()].add(row.generation)
    return found


def read_claims(session: Session, family: Family) -> dict[date, Generation]:
    """The published generation of each UTC day, from the batch pointer."""
    rows = session.execute(
        f"SELECT {GENERATION_COLUMNS} FROM batch_pointer WHERE family = %s", [family.name]
    )
    dated = (row for row in rows if row.day is not None)
    return {row.day.date(): parse_generation(row) for row in dated}


def totals(window: MergedWindow) -> Totals:
    """Receipts, net cents and units of one merged window; the real data has one currency."""
    parts = list((window.values or {}).values())
    return Totals(
        sum(part["receipts"] for part in parts),
        sum(part["gross_minor"] - sum(part[less] for less in _LESS) for part in parts),
        sum(part["units_milli"] for part in parts),
    )


def _all_rows(session: Session, table: str) -> Iterator[Any]:
    # The name comes from a source's descriptor, which accepts only letters and digits.
    statement = session.prepare(f"SELECT * FROM {table}")
    statement.fetch_size = _FETCH
    # No timeout: reading a whole table may take any time.
    page = session.execute(statement, timeout=None)
    while page.has_more_pages:
        # Cassandra reads the next page while this one is processed.
        page.response_future.start_fetching_next_page()
        yield from page.current_rows
        page = page.response_future.result()
    yield from page.current_rows


def _window_states(
    rows: Iterable[Any], scope: Scope, family: Family
) -> dict[WindowKey, WindowState]:
    by_window: dict[WindowKey, list[_AuditedRow]] = defaultdict(list)
    for row in rows:
        key = (row.store_id, assume_utc(row.window_start))
        if scope.holds(*key):
            axes = tuple(getattr(row, name) for name in family.axes)
            parts = tuple(getattr(row, name) for name in family.part_names)
            # Speed rows have no columns of excluded parts.
            excluded = tuple(getattr(row, name, None) for name in family.exclusion_columns)
            by_window[key].append(_AuditedRow(axes, row.epoch, row.events, parts, excluded))
    return {key: window_state(family.parts, window) for key, window in by_window.items()}
