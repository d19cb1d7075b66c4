"""Money and quantities as integers: minor units of a currency, thousandths of a unit; and how tills
round money."""

import json
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).parents[2] / "schemas" / "currencies.json"
# ISO 4217 code to its decimals: codes in use, and codes of receipts that may still have to be kept.
# Codes that stand for no money (XXX, XTS, metals) are not among them.
CURRENCIES: dict[str, int] = {
    code: digits
    for group in json.loads(_FILE.read_text("utf-8")).values()
    for code, digits in group.items()
}
_WHOLE = Decimal(1)
# Wide enough for the product of any two accepted numbers, so that rounding happens once.
EXACT = Context(prec=80, rounding=ROUND_HALF_EVEN)


def minor_digits(currency: str) -> int:
    """Decimals of a currency: 2 for most, and for an unknown code.

    >>> minor_digits("EUR"), minor_digits("JPY"), minor_digits("CLF")
    (2, 0, 4)
    """
    return CURRENCIES.get(currency, 2)


def to_minor_units(amount: Decimal, currency: str, rounding: str = ROUND_HALF_UP) -> int:
    """Amount in minor units of a currency of CURRENCIES, half a unit rounded away from zero.

    Fiscal printers and most tills round in this way; `rounding` is a mode of the module decimal.

    >>> to_minor_units(Decimal("0.125"), "USD"), to_minor_units(Decimal("-0.125"), "USD")
    (13, -13)
    """
    return int(amount.scaleb(CURRENCIES[currency], EXACT).quantize(_WHOLE, rounding, EXACT))


def to_thousandths(amount: Decimal) -> int:
    """Quantity in thousandths. Raises ValueError when it has more than 3 decimals.

    >>> to_thousandths(Decimal("2.5"))
    2500
    """
    scaled = amount.scaleb(3, EXACT)
    whole = int(scaled)
    if whole != scaled:
        raise ValueError(f"{amount} has more than 3 decimals")
    return whole


class TillRounding(NamedTuple):
    """How half a minor unit is rounded (by decimal), in the receipt's total or each line's."""

    mode: str = ROUND_HALF_UP
    per_receipt: bool = False


HALF_UP_BY_LINE = TillRounding()
# By the word in the stores file.
ROUNDINGS: Mapping[str, TillRounding] = {
    "half_up": HALF_UP_BY_LINE,
    "half_even": TillRounding(ROUND_HALF_EVEN),
    "half_up_of_receipt": TillRounding(per_receipt=True),
    "half_even_of_receipt": TillRounding(ROUND_HALF_EVEN, per_receipt=True),
}
