"""Money and quantities as integers: minor units of a currency, thousandths of a unit."""

from decimal import ROUND_HALF_EVEN, Decimal

# ISO 4217 currencies whose minor unit is not a hundredth.
_EXPONENTS = {
    **dict.fromkeys("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF".split(), 0),
    **dict.fromkeys("BHD IQD JOD KWD LYD OMR TND".split(), 3),
}
_WHOLE = Decimal(1)


def minor_units(amount: Decimal, currency: str) -> int:
    """Amount in minor units, rounded half to even.

    >>> minor_units(Decimal("0.125"), "USD"), minor_units(Decimal("7"), "JPY")
    (12, 7)
    """
    return int(amount.scaleb(_EXPONENTS.get(currency, 2)).quantize(_WHOLE, ROUND_HALF_EVEN))


def thousandths(amount: Decimal) -> int:
    """Quantity in thousandths. Raises ValueError when it has more than 3 decimals.

    >>> thousandths(Decimal("2.5"))
    2500
    """
    scaled = amount.scaleb(3)
    if scaled != scaled.to_integral_value():
        raise ValueError(f"{amount} has more than 3 decimals")
    return int(scaled)
