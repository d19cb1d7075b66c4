"""Comparison of a contender's rows with the oracle: a run that differs gives no number."""

import sys
from collections.abc import Mapping
from typing import TypeAlias

from cassandra.cluster import Session

# Store and window start (milliseconds since 1970); receipts and cents.
SoldKey: TypeAlias = tuple[str, int]
Sold: TypeAlias = tuple[int, int]
SoldTotals: TypeAlias = Mapping[SoldKey, Sold]


def read_rows(session: Session, rows: str = "sales_15min") -> dict[SoldKey, Sold]:
    """Receipts and cents over all currencies, by store and window start (ms since 1970)."""
    found: dict[SoldKey, Sold] = {}
    for row in session.execute(f"SELECT store_id, window_start, receipts, gross_minor FROM {rows}"):
        key = row.store_id, int(row.window_start.timestamp() * 1000)
        receipts, cents = found.get(key, (0, 0))
        found[key] = receipts + row.receipts, cents + row.gross_minor
    return found


def refuse_wrong_rows(name: str, found: SoldTotals, expected: SoldTotals) -> None:
    """Print how many windows were compared. Raises SystemExit when one is not as expected."""
    # Windows of either side: an extra window is as wrong as a missing one.
    windows = found.keys() | expected.keys()
    wrong = [key for key in windows if found.get(key) != expected.get(key)]
    say(f"{name}: {len(expected):,} windows compared, {len(wrong):,} differ")
    if wrong:
        raise SystemExit(
            f"{name}: e.g. {wrong[0]}:"
            f" {found.get(wrong[0])} for {expected.get(wrong[0])}; no number"
        )


def say(line: str) -> None:
    """Print a progress line on stderr."""
    print(line, file=sys.stderr, flush=True)
