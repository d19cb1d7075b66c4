"""How the tills of a store round money."""

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP
from typing import NamedTuple


class TillRounding(NamedTuple):
    """How half a minor unit is rounded (a mode of the module decimal), and in which amounts.

    `per_receipt`: in the receipt's total, else in each line's.
    """

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
