"""Lines that a later line of a receipt cancels, or an attribute of their own."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from xml.etree.ElementTree import Element

from ingest.sources.sales.poslog import xml
from ingest.sources.sales.poslog.facts import load_facts
from ingest.sources.sales.poslog.line import NumberRead, ReadLine, read_number, refused_line


def cancel_line(line: ReadLine, line_item: Element, before: Sequence[ReadLine]) -> None:
    """Cancel the line, or what it reverses, as flags and action of its LineItem say."""
    action = line_item.get("Action") or "Add"
    meaning = load_facts().line_actions.get(action)
    if meaning is None:
        line.line_type = f"LineItem {action}"
    flags = (xml.is_set(line_item, "CancelFlag"), xml.is_set(line_item, "DeleteFlag"))
    line.is_cancelled = meaning == "cancelled" or any(flags)
    if xml.is_set(line_item, "VoidFlag") and not line.is_cancelled:
        _void(line, before)


def _void(line: ReadLine, before: Sequence[ReadLine]) -> None:
    """A void flag stands on the line that is cancelled, or on a second one that reverses it."""
    reversed_line = next((one for one in reversed(before) if _is_reversed(one, line)), None)
    # Amounts have no sign in the standard: one below nothing is what a reversal has.
    is_reversing = isinstance(line.total, Decimal) and line.total < 0 and line.role == "goods"
    if reversed_line is not None:
        _lessen(reversed_line, line.total, line.amount)
    # A reversing line whose first line nobody sent takes off what it says.
    line.is_cancelled = reversed_line is not None or not is_reversing


def _is_reversed(line: ReadLine, by: ReadLine) -> bool:
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


def _lessen(line: ReadLine, total: NumberRead | None, amount: NumberRead) -> None:
    """Take off a line what another one says with the other sign."""
    numbers = (line.total, total, line.amount, amount)
    if not all(isinstance(number, Decimal) for number in numbers):
        return
    left_total, left_amount = _sum(line.total, total), _sum(line.amount, amount)
    if left_total or left_amount:
        line.total, line.amount = left_total, left_amount
    else:
        # A cancelled line keeps what it said.
        line.is_cancelled = True


def _sum(one: NumberRead | None, other: NumberRead | None) -> Decimal:
    return Decimal(one or 0) + Decimal(other or 0)


def cancel_linked(
    void: Element, sequence: str | None, lines: Sequence[ReadLine]
) -> Iterator[ReadLine]:
    """Cancel the line that a Voids element names, or so much of it; refused where it names none."""
    link, said = xml.text(void, "ItemLink"), xml.text(void, "Quantity")
    line = next((one for one in lines if link and one.sequence == link), None)
    quantity = read_number(said)
    if line is None or (said and quantity is None):
        yield refused_line("Voids", sequence)
    # Without a quantity all of the line is meant.
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
