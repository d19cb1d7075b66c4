"""How a till rounds, and by how much its total therefore is not the sum of its lines."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import product
from typing import NamedTuple

from ingest.sources.sales.record import Line
from tally.errors import RejectedEvent
from tally.money import minor_digits, minor_units
from tally.receipt_rules import TOTAL_ROUNDING, ReceiptKind
from tally.rounding import TillRounding


class Money(NamedTuple):
    """The currency of a receipt (ISO 4217), and how its store rounds."""

    currency: str
    rounding: TillRounding


class SoldLines(NamedTuple):
    """The exact totals of the lines that are part of the receipt's total, and their sum when each
    is rounded, in minor units; beside it what lines of rounding say, as to five cents."""

    totals: Sequence[Decimal]
    minor: int
    said_rounding: int = 0


def rounding_of(
    lines: SoldLines, money: Money, net_total: Decimal | None, kind: ReceiptKind
) -> int:
    """By how many minor units the till's total is more than the sum of its rounded lines.

    Tills round each line or the receipt, half up or half to even: all of these lie within half a
    minor unit a line of what the lines come to exactly. A total may have been rounded further, as
    to five cents, where lines of rounding say by how much. Of a return or a void `net_total` may
    have either sign: the kind says the direction. None: the store's rule says what the till's total
    is. Raises RejectedEvent total_mismatch for a total that is farther away.
    """
    exact = sum(lines.totals, Decimal(0))
    if net_total is None:
        if not money.rounding.is_of_receipt:
            return 0
        return minor_units(exact, money.currency, money.rounding.mode) - lines.minor
    said = minor_units(net_total, money.currency)
    totals = (said,) if kind == "sale" else (said, -said)
    if lines.minor in totals:
        return 0
    exact_minor = exact.scaleb(minor_digits(money.currency))
    # Of a total with the other sign the rounding has it too.
    signs = (1,) if kind == "sale" else (1, -1)
    explained = (0, *(sign * lines.said_rounding for sign in signs))
    for total, rounded in product(totals, explained):
        if abs(total - rounded - exact_minor) * 2 <= len(lines.totals):
            return total - lines.minor
    raise RejectedEvent(
        "total_mismatch",
        "/net_total",
        f"/net_total: is {said} minor units, and the lines come to {lines.minor}; rounding explains"
        " at most half a unit a line, and what lines of rounding say",
    )


def rounding_line(minor: int, currency: str) -> Line:
    """The line of the record that has the difference, in minor units."""
    price = Decimal(minor).scaleb(-minor_digits(currency))
    return Line(
        item="rounding",
        item_id="rounding",
        price=format(price, "f"),
        amount_milli=1000,
        total_minor=minor,
        line_type=TOTAL_ROUNDING,
    )
