"""Readers of decimal numbers: prices, totals and amounts, exact except for float noise."""

import re
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact
from typing import Any

from ingest.contract.fields import describe_value
from tally.errors import RejectedEvent
from tally.events.money import EXACT, to_thousandths

# Digits before the point: 10^12 minor units of a currency without decimals, and a quantity.
_MONEY_DIGITS = 13
_QUANTITY_DIGITS = 9
# A till that adds binary floats leaves noise at a number's end: 74.60000000000001 is 74.6. Noise is
# at most so much, or such a share of the number, beyond six decimals of a price or three of a
# quantity.
_NOISE, _RELATIVE_NOISE = Decimal("1e-9"), Decimal("1e-15")
_PRICE_STEP, _QUANTITY_STEP = Decimal("1e-6"), Decimal("1e-3")
# More than any decimal spelling of a double needs; these also bound the text of a price.
_MIN_EXPONENT = -25
_MAX_DIGITS = 34
_BOUNDED = Context(prec=_MAX_DIGITS, traps=[Inexact])
_DECIMAL_TEXT = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?", re.ASCII)
_ZERO = Decimal(0)


def decimal_number(value: Any, at: str, whole_digits: int = _MONEY_DIGITS) -> Decimal:
    """A JSON number or decimal text of at most `whole_digits` before the point.

    The result is exact except for the noise of binary floats, and has no trailing zeros, so that
    each value has one spelling. Raises RejectedEvent: wrong_type, out_of_range.
    """
    kind = type(value)
    if kind is int:
        number = Decimal(value)
    elif kind is Decimal:
        number = value
    elif kind is str and _DECIMAL_TEXT.fullmatch(value) is not None:
        number = Decimal(value)
    else:
        raise RejectedEvent(
            "wrong_type",
            at,
            f'{at}: a number or decimal text like "12.30" is wanted, got {describe_value(value)}',
        )
    if not number:
        return _ZERO
    # adjusted() is checked first: a number of a million digits is refused without computing it.
    if not _MIN_EXPONENT <= number.adjusted() < whole_digits:
        raise _out_of_range(value, at, whole_digits)
    try:
        return _without_noise(_BOUNDED.normalize(number), _PRICE_STEP)
    except Inexact:
        raise _out_of_range(value, at, whole_digits) from None


def line_total(price: Decimal, amount_milli: int, at: str) -> Decimal:
    """price × amount, exact. Raises RejectedEvent out_of_range."""
    total = EXACT.normalize(EXACT.multiply(price, Decimal(amount_milli).scaleb(-3)))
    if total and total.adjusted() >= _MONEY_DIGITS:
        raise _out_of_range(total, at, _MONEY_DIGITS)
    return total or _ZERO


def quantity_milli(value: Any, at: str, is_rounded: bool = False) -> int:
    """A decimal number with at most 3 decimals, in thousandths of its unit.

    With `is_rounded` further decimals are rounded, half away from zero: no money depends on them.
    Raises RejectedEvent: wrong_type, out_of_range.
    """
    amount = _without_noise(decimal_number(value, at, _QUANTITY_DIGITS), _QUANTITY_STEP)
    if is_rounded:
        amount = amount.quantize(_QUANTITY_STEP, ROUND_HALF_UP, EXACT)
    try:
        return to_thousandths(amount)
    except ValueError as error:
        raise RejectedEvent("out_of_range", at, f"{at}: {error}") from error


def _without_noise(number: Decimal, step: Decimal) -> Decimal:
    """The number, rounded to a multiple of `step` if it differs only by binary float noise."""
    rounded = number.quantize(step, context=EXACT)
    noise = abs(number - rounded)
    if noise and noise <= max(_NOISE, _RELATIVE_NOISE * abs(number)):
        return EXACT.normalize(rounded) or _ZERO
    return number


def _out_of_range(value: Any, at: str, whole_digits: int) -> RejectedEvent:
    taken = f"numbers below {10**whole_digits:,} of at most {_MAX_DIGITS} digits are taken"
    return RejectedEvent("out_of_range", at, f"{at}: {taken}, got {describe_value(value)}")
