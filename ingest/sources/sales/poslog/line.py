"""A line of a POSLog receipt while it is read, and the readers of its numbers."""

from dataclasses import dataclass
from decimal import Decimal, DecimalException
from typing import TypeAlias

# A number as it was read, or its text if it is none: the contract refuses that and names the field.
NumberOrText: TypeAlias = Decimal | str
ZERO, ONE = Decimal(0), Decimal(1)
_LONGEST_NUMBER = 40
GOODS = ("goods", "goods_back")


@dataclass
class PoslogLine:
    """A line while its receipt is read: a later line may still cancel or reduce it.

    `total` and `amount` have the signs of the body; `price` is the unit price if there is no total.
    """

    element: str
    role: str
    sequence: str | None
    item: str
    total: NumberOrText | None
    amount: NumberOrText = ONE
    item_id: str | None = None
    category: str | None = None
    price: str | None = None
    line_type: str | None = None
    item_type: str | None = None
    is_cancelled: bool = False

    @property
    def is_goods(self) -> bool:
        """Whether goods were sold or came back."""
        return self.role in GOODS


def read_number(text: str | None) -> Decimal | None:
    """The number of a text; None without one, and for a number that is unfit for sums."""
    if text is None or len(text) > _LONGEST_NUMBER:
        return None
    try:
        number = Decimal(text)
    except DecimalException:
        return None
    return number if number.is_finite() and abs(number.adjusted()) < _LONGEST_NUMBER else None


def to_number(text: str | None) -> NumberOrText | None:
    """The number of a text, or the text if it is no number; None without a text."""
    number = read_number(text)
    return text if number is None else number


def without_sign(number: NumberOrText | None, is_negative: bool = False) -> NumberOrText | None:
    """The number with a positive sign, or a negative one; a text as it is."""
    if not isinstance(number, Decimal):
        return number
    return -abs(number) if is_negative else abs(number)


def as_text(number: NumberOrText | None) -> str | None:
    """The number as the text that a message has."""
    return format(number, "f") if isinstance(number, Decimal) else number


def invalid_line(name: str, sequence: str | None) -> PoslogLine:
    """A line whose type the contract refuses, and names."""
    return PoslogLine(name, "refused", sequence, name, ZERO, line_type=name)
