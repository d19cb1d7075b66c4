"""Money and quantities as integers: minor units of a currency, thousandths of a unit."""

from decimal import ROUND_HALF_EVEN, Context, Decimal

# ISO 4217 currencies whose minor unit is not a hundredth.
_EXPONENTS = {
    **dict.fromkeys(["BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND"], 0),
    **dict.fromkeys(["VUV", "XAF", "XOF", "XPF"], 0),
    **dict.fromkeys(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"], 3),
}
_WHOLE = Decimal(1)
# Wide enough for the product of any two accepted numbers, so that rounding happens once, at the minor unit.
EXACT = Context(prec=80, rounding=ROUND_HALF_EVEN)


def minor_digits(currency: str) -> int:
    """Decimals of a currency: 2 for most.

    >>> minor_digits("EUR"), minor_digits("JPY")
    (2, 0)
    """
    return _EXPONENTS.get(currency, 2)


def minor_units(amount: Decimal, currency: str) -> int:
    """Amount in minor units, rounded half to even.

    >>> minor_units(Decimal("0.125"), "USD"), minor_units(Decimal("7"), "JPY")
    (12, 7)
    """
    return int(amount.scaleb(_EXPONENTS.get(currency, 2), EXACT).quantize(_WHOLE, ROUND_HALF_EVEN, EXACT))


def thousandths(amount: Decimal) -> int:
    """Quantity in thousandths. Raises ValueError when it has more than 3 decimals.

    >>> thousandths(Decimal("2.5"))
    2500
    """
    scaled = amount.scaleb(3, EXACT)
    whole = int(scaled)
    if whole != scaled:
        raise ValueError(f"{amount} has more than 3 decimals")
    return whole
