"""How a till rounds, and the resulting difference between its total and the sum of its lines."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import product
from typing import NamedTuple

from ingest.sources.sales.record import Line
from tally.errors import RejectedEvent
from tally.events.money import TillRounding, minor_digits, to_minor_units
from tally.events.receipt_rules import TOTAL_ROUNDING, ReceiptKind


class Money(NamedTuple):
    """The currency of a receipt (ISO 4217), and how its store rounds."""

    currency: str
    rounding: TillRounding


class SoldLines(NamedTuple):
    """The lines that are part of the receipt's total.

    `totals` are exact; `minor` is the sum of the rounded totals, in minor units.
    `reported_rounding` is the sum of the till's own rounding lines, for example to five cents.
    """

    totals: Sequence[Decimal]
    minor: int
    reported_rounding: int = 0


def rounding_difference(
    lines: SoldLines, money: Money, net_total: Decimal | None, kind: ReceiptKind
) -> int:
    """By how many minor units the till's total exceeds the sum of its rounded lines.

    Tills round each line or the receipt, half up or half to even: all of these differ from the
    exact sum of the lines by at most half a minor unit per line. A total may have been rounded
    further, for example to five cents, if rounding lines say by how much. The `net_total` of a
    return or a void may have either sign, because the kind gives the direction. Without `net_total`
    the store's rule determines the till's total. Raises RejectedEvent total_mismatch for a total
    that is farther away.
    """
    exact = sum(lines.totals, Decimal(0))
    if net_total is None:
        if not money.rounding.per_receipt:
            return 0
        return to_minor_units(exact, money.currency, money.rounding.mode) - lines.minor
    total_minor = to_minor_units(net_total, money.currency)
    totals = (total_minor,) if kind == "sale" else (total_minor, -total_minor)
    if lines.minor in totals:
        return 0
    exact_minor = exact.scaleb(minor_digits(money.currency))
    # If the total has the opposite sign, so has its rounding.
    signs = (1,) if kind == "sale" else (1, -1)
    explained = (0, *(sign * lines.reported_rounding for sign in signs))
    for total, rounded in product(totals, explained):
        if abs(total - rounded - exact_minor) * 2 <= len(lines.totals):
            return total - lines.minor
    raise RejectedEvent(
        "total_mismatch",
        "/net_total",
        f"/net_total: is {total_minor} minor units, and the lines come to {lines.minor};"
        " rounding explains at most half a unit a line, and what lines of rounding say",
    )


def rounding_line(minor: int, currency: str) -> Line:
    """The line of the record that holds the difference, in minor units."""
    price = Decimal(minor).scaleb(-minor_digits(currency))
    return Line(
        item="rounding",
        item_id="rounding",
        price=format(price, "f"),
        amount_milli=1000,
        total_minor=minor,
        line_type=TOTAL_ROUNDING,
    )
