"""A line of a POSLog receipt while it is read: the readers of its numbers, and its cancellation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from typing import TypeAlias
from xml.etree.ElementTree import Element

from ingest.sources.sales.poslog import xml
from ingest.sources.sales.poslog.facts import load_facts

# A number as it was read, or its text if it is none: the contract refuses that and names the field.
NumberOrText: TypeAlias = Decimal | str
ZERO, ONE = Decimal(0), Decimal(1)
_LONGEST_NUMBER = 40
GOODS = ("goods", "goods_back")


@dataclass
class PoslogLine:
    """A line that a later one may cancel, with the body's signs; `price` serves without a total."""

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


def cancel_line(line: PoslogLine, line_item: Element, before: Sequence[PoslogLine]) -> None:
    """Cancel the line, or the line it reverses, by the flags and the action of its LineItem."""
    action = line_item.get("Action") or "Add"
    meaning = load_facts().line_actions.get(action)
    if meaning is None:
        line.line_type = f"LineItem {action}"
    flags = (xml.is_set(line_item, "CancelFlag"), xml.is_set(line_item, "DeleteFlag"))
    line.is_cancelled = meaning == "cancelled" or any(flags)
    if xml.is_set(line_item, "VoidFlag") and not line.is_cancelled:
        _apply_void_flag(line, before)


def _apply_void_flag(line: PoslogLine, before: Sequence[PoslogLine]) -> None:
    """Apply a void flag, which is set on the cancelled line or on a second, reversing line."""
    matches = (earlier for earlier in reversed(before) if _is_reversed(earlier, line))
    reversed_line = next(matches, None)
    # Amounts have no sign in the standard, so a negative amount marks a reversal.
    is_reversing = isinstance(line.total, Decimal) and line.total < 0 and line.role == "goods"
    if reversed_line is not None:
        _reduce_line(reversed_line, line)
    # A reversing line whose original was not sent subtracts its own amount.
    line.is_cancelled = reversed_line is not None or not is_reversing


def _is_reversed(line: PoslogLine, by: PoslogLine) -> bool:
    """Whether the other line takes all or a part of this one back."""
    # Each line may be compared with all lines before it, so what is cheap comes first.
    if line.is_cancelled or line.element != by.element:
        return False
    if (line.item_id or line.item) != (by.item_id or by.item):
        return False
    pairs = (line.total, by.total), (line.amount, by.amount)
    return all(
        isinstance(ours, Decimal)
        and isinstance(theirs, Decimal)
        and ours * theirs <= 0
        and abs(theirs) <= abs(ours)
        for ours, theirs in pairs
    )


def _reduce_line(line: PoslogLine, by: PoslogLine) -> None:
    """Reduce a line by another, whose total and amount are numbers of the opposite sign."""
    left_total = Decimal(line.total or 0) + Decimal(by.total or 0)
    left_amount = Decimal(line.amount) + Decimal(by.amount)
    if left_total or left_amount:
        line.total, line.amount = left_total, left_amount
    else:
        # A cancelled line keeps its own numbers.
        line.is_cancelled = True


def cancel_linked(
    void: Element, sequence: str | None, lines: Sequence[PoslogLine]
) -> Iterator[PoslogLine]:
    """Cancel the line that a Voids element names, or a part; yields a refused line without one."""
    link, quantity_text = xml.text(void, "ItemLink"), xml.text(void, "Quantity")
    line = next((candidate for candidate in lines if link and candidate.sequence == link), None)
    quantity = read_number(quantity_text)
    if line is None or (quantity_text and quantity is None):
        yield invalid_line("Voids", sequence)
    # Without a quantity the whole line is cancelled.
    elif (
        quantity is None
        or not isinstance(line.amount, Decimal)
        or not isinstance(line.total, Decimal)
        or abs(quantity) >= abs(line.amount)
    ):
        line.is_cancelled = True
    else:
        left = 1 - abs(quantity / line.amount)
        line.amount, line.total = line.amount * left, line.total * left
