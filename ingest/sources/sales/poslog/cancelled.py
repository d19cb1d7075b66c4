"""Cancels lines of a receipt, by a later line or by an attribute of their own."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from xml.etree.ElementTree import Element

from ingest.sources.sales.poslog import xml
from ingest.sources.sales.poslog.facts import load_facts
from ingest.sources.sales.poslog.line import NumberOrText, PoslogLine, invalid_line, read_number


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
    reversed_line = next(
        (earlier for earlier in reversed(before) if _is_reversed(earlier, line)), None
    )
    # Amounts have no sign in the standard, so a negative amount marks a reversal.
    is_reversing = isinstance(line.total, Decimal) and line.total < 0 and line.role == "goods"
    if reversed_line is not None:
        _reduce_line(reversed_line, line.total, line.amount)
    # A reversing line whose original was not sent subtracts its own amount.
    line.is_cancelled = reversed_line is not None or not is_reversing


def _is_reversed(line: PoslogLine, by: PoslogLine) -> bool:
    """Whether the other line takes all or a part of this one back."""
    if line.is_cancelled or (line.element, line.item_id or line.item) != (
        by.element,
        by.item_id or by.item,
    ):
        return False
    pairs = ((line.total, by.total), (line.amount, by.amount))
    return all(
        isinstance(ours, Decimal)
        and isinstance(theirs, Decimal)
        and ours * theirs <= 0
        and abs(theirs) <= abs(ours)
        for ours, theirs in pairs
    )


def _reduce_line(line: PoslogLine, total: NumberOrText | None, amount: NumberOrText) -> None:
    """Reduce a line by the total and amount of another line, which have the opposite sign."""
    numbers = (line.total, total, line.amount, amount)
    if not all(isinstance(number, Decimal) for number in numbers):
        return
    left_total, left_amount = _sum(line.total, total), _sum(line.amount, amount)
    if left_total or left_amount:
        line.total, line.amount = left_total, left_amount
    else:
        # A cancelled line keeps its own numbers.
        line.is_cancelled = True


def _sum(first: NumberOrText | None, second: NumberOrText | None) -> Decimal:
    return Decimal(first or 0) + Decimal(second or 0)


def cancel_linked(
    void: Element, sequence: str | None, lines: Sequence[PoslogLine]
) -> Iterator[PoslogLine]:
    """Cancel the line that a Voids element names, or a part of it; yields a refused line if none.

    A refused line is one that the contract refuses.
    """
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
