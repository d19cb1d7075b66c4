"""The rows that a contender wrote, beside those of the oracle: a run that differs has no number."""

import sys
from collections.abc import Mapping
from typing import TypeAlias

from cassandra.cluster import Session

# Store and start of the window (milliseconds since 1970); receipts and cents.
SoldKey: TypeAlias = tuple[str, int]
Sold: TypeAlias = tuple[int, int]
SoldTotals: TypeAlias = Mapping[SoldKey, Sold]


def rows_of(session: Session, rows: str = "sales_15min") -> dict[SoldKey, Sold]:
    """By store and window start (ms since 1970) receipts and cents, over all currencies."""
    found: dict[SoldKey, Sold] = {}
    for row in session.execute(f"SELECT store_id, window_start, receipts, gross_minor FROM {rows}"):
        key = row.store_id, int(row.window_start.timestamp() * 1000)
        receipts, cents = found.get(key, (0, 0))
        found[key] = receipts + row.receipts, cents + row.gross_minor
    return found


def refuse_wrong_rows(name: str, found: SoldTotals, expected: SoldTotals) -> None:
    """Raise SystemExit unless every window is as expected; say how many were compared."""
    # Windows of either side: one too many is as wrong as one that lacks.
    windows = found.keys() | expected.keys()
    wrong = [key for key in windows if found.get(key) != expected.get(key)]
    say(f"{name}: {len(expected):,} windows compared, {len(wrong):,} differ")
    if wrong:
        raise SystemExit(
            f"{name}: e.g. {wrong[0]}:"
            f" {found.get(wrong[0])} for {expected.get(wrong[0])}; no number"
        )


def say(line: str) -> None:
    """A line for whoever waits."""
    print(line, file=sys.stderr, flush=True)
