"""The rule of a window's rows, in plain Python, for the laws to compare with."""

from collections.abc import Sequence
from dataclasses import dataclass

Totals = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Sale:
    """One record of one window: its place in the list is its offset order."""

    identity: int
    currency: str
    cents: int


def first_copies(sales: Sequence[Sale]) -> list[Sale]:
    """Of each identity the copy that came first."""
    first: dict[int, Sale] = {}
    for sale in sales:
        first.setdefault(sale.identity, sale)
    return list(first.values())


def window_totals(sales: Sequence[Sale]) -> tuple[int, Totals]:
    """Events of the window, and (receipts, cents) by currency."""
    kept = first_copies(sales)
    totals: Totals = {}
    for sale in kept:
        receipts, cents = totals.get(sale.currency, (0, 0))
        totals[sale.currency] = (receipts + 1, cents + sale.cents)
    return len(kept), totals
