"""Reads the LineItems of a RetailTransaction as lines of a message, and its totals.

Amounts have no sign in the standard: the element says whether goods were sold or came back. Tills
that write signs all the same are read too. Source: POSLogV6.0.0.xsd.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, DecimalException
from typing import Any, TypeAlias
from xml.etree.ElementTree import Element

from ingest.contract.vendor import WorkBudget
from ingest.sources.sales.lines import MAX_LINES, PAYMENTS
from ingest.sources.sales.poslog import xml
from ingest.sources.sales.poslog.facts import LineItemFact, load_facts
from ingest.sources.sales.poslog.line import (
    GOODS,
    ONE,
    ZERO,
    NumberOrText,
    PoslogLine,
    as_text,
    cancel_line,
    cancel_linked,
    invalid_line,
    read_number,
    to_number,
    without_sign,
)

LineFields: TypeAlias = dict[str, Any]
_CENT_OF_A_CENT = Decimal("0.000001")
# How many lines can be compared in the time in which one element is read.
_COMPARISONS_PER_STEP = 16
# The endings of the names of elements that hold money.
_MONEY = ("Amount", "Price")


def read_lines(
    retail: Element, item_types: Mapping[str, str], budget: WorkBudget
) -> list[PoslogLine]:
    """The lines that carry money or goods, with the signs that count, including cancelled lines.

    `item_types` maps a vendor's own kinds of article (`x:Word`) to types of line; unknown kinds
    count as articles, and are kept in `item_type`. Raises BodyTooLarge.
    """
    lines: list[PoslogLine] = []
    # A Voids element may precede the line that it cancels.
    voids: list[tuple[str | None, Element]] = []
    for line_item in xml.children(retail, "LineItem"):
        sequence = xml.text(line_item, "SequenceNumber")
        is_void = xml.is_set(line_item, "VoidFlag")
        for element in line_item:
            # The contract refuses so many lines anyway.
            if max(len(lines), len(voids)) > MAX_LINES:
                return [*lines, invalid_line("Voids", None)]
            if xml.name(element) == "Voids":
                voids.append((sequence, element))
            else:
                for line in _read_element(element, sequence, item_types):
                    if is_void:
                        # Each such line may be compared with all lines before it.
                        budget.count_steps(len(lines) // _COMPARISONS_PER_STEP)
                    cancel_line(line, line_item, lines)
                    lines.append(line)
    budget.count_steps(len(voids) * len(lines) // _COMPARISONS_PER_STEP)
    lines += [line for sequence, void in voids for line in cancel_linked(void, sequence, lines)]
    _set_signs(lines)
    return lines


def is_return(lines: Sequence[PoslogLine]) -> bool:
    """Whether goods came back, and none was sold."""
    roles = {line.role for line in lines if line.role in GOODS and not line.is_cancelled}
    return roles == {"goods_back"}


def to_fields(line: PoslogLine) -> LineFields:
    """The fields of the line in a message."""
    fields = {
        "item": line.item,
        "item_id": line.item_id,
        "category": line.category,
        "price": line.price or _unit_price(line),
        "amount": as_text(line.amount),
        "total": as_text(line.total),
        "line_type": line.line_type,
        "cancelled": line.is_cancelled or None,
        "unmapped_type": line.item_type,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _read_element(
    element: Element, sequence: str | None, item_types: Mapping[str, str]
) -> Iterator[PoslogLine]:
    """The line of an element, and the lines of the roundings in it."""
    if line := _read_line(element, sequence, item_types):
        yield line
    # A tender in cash says by how much the total was rounded for it.
    for rounding in xml.children(element, "Rounding"):
        if line := _read_rounding(rounding, sequence):
            yield line


def _read_line(
    element: Element, sequence: str | None, item_types: Mapping[str, str]
) -> PoslogLine | None:
    name = xml.name(element)
    fact = load_facts().line_items.get(name)
    if fact is None or fact.role == "refused":
        # The contract refuses this line type, and names it.
        return invalid_line(name, sequence) if _carries_money(element) else None
    if fact.role == "nothing":
        return None
    if fact.role == "rounding":
        return _read_rounding(element, sequence)
    if fact.role in GOODS:
        return _read_goods(element, fact.role, sequence, item_types)
    return _read_money(element, fact, sequence)


def _read_goods(
    element: Element, role: str, sequence: str | None, item_types: Mapping[str, str]
) -> PoslogLine:
    facts = load_facts()
    code = xml.text(element, "POSIdentity", "POSItemID") or xml.text(element, "ItemID")
    code = code or xml.text(element, "SpecialOrderNumber")
    category = xml.text(element, "MerchandiseHierarchy")
    item_type = element.get("ItemType")
    line_type = facts.item_types.get(item_type or "Stock") or item_types.get(item_type or "")
    # The schema lets vendors add words, and most of them are kinds of articles.
    is_unmapped = line_type is None and ":" in (item_type or "")
    if xml.name(element) == "FuelSale" and element.get("TypeCode"):
        fuel_type = str(element.get("TypeCode"))
        line_type = facts.fuel_types.get(fuel_type, fuel_type)
    total: NumberOrText | None = to_number(xml.text(element, "ExtendedAmount"))
    action = xml.attribute(element, "ExtendedAmount", "Action") or "Add"
    if action not in facts.amount_actions:
        line_type = f"ExtendedAmount {action}"
    elif isinstance(total, Decimal) and facts.amount_actions[action] == "subtract":
        total = -abs(total)
    is_refund = item_type in facts.refunds or line_type == "deposit_refund"
    if isinstance(total, Decimal) and is_refund and role == "goods":
        total = -abs(total)
    # Tills that leave out the total send the price of one unit.
    price_names = ("ActualSalesUnitPrice", "RegularSalesUnitPrice") if total is None else ()
    prices = (xml.text(element, price_name) for price_name in price_names)
    return PoslogLine(
        element=xml.name(element),
        role=role,
        sequence=sequence,
        item=xml.text(element, "Description") or code or category or xml.name(element),
        total=total,
        amount=to_number(xml.text(element, "Quantity")) or ONE,
        item_id=code,
        category=category,
        price=next(filter(None, prices), None),
        line_type="item" if is_unmapped else line_type or item_type,
        item_type=item_type if is_unmapped else None,
    )


def _read_money(element: Element, fact: LineItemFact, sequence: str | None) -> PoslogLine | None:
    """A discount, or money that is not for goods; None if the element has no money."""
    name = xml.name(element)
    if _is_no_money(element):
        return None
    places = {path: path.split("/") for path in fact.amount}
    amounts = {path: xml.text(element, *steps) for path, steps in places.items()}
    # If the money can be in several places, the first that is filled holds all of it.
    path = next(filter(amounts.get, fact.amount), "")
    amount = amounts.get(path)
    if amount is None:
        return invalid_line(name, sequence) if _carries_money(element) else None
    total = to_number(amount)
    line_type: str | None = None if fact.role == "discount" else fact.role
    if xml.is_set(element, "Refund") and fact.refund_as:
        line_type, total = fact.refund_as, without_sign(total, is_negative=True)
    if fact.role == "discount" and xml.attribute(element, path, "Action") == "Add":
        line_type = f"{name} that adds"
    item = xml.text(element, "Description") or xml.text(element, "PromotionID") or name
    line = PoslogLine(name, fact.role, sequence, item, total, line_type=line_type)
    return line if total else None


def _read_rounding(element: Element, sequence: str | None) -> PoslogLine | None:
    # The schema puts the amount into the element itself.
    total = to_number(xml.text(element) or xml.text(element, "Amount"))
    direction = element.get("RoundingDirection")
    if direction in ("Up", "Down"):
        total = without_sign(total, is_negative=direction == "Down")
    name = xml.name(element)
    line = PoslogLine(name, "rounding", sequence, name, total, line_type="rounding")
    return line if total else None


def _is_no_money(element: Element) -> bool:
    """Whether a reward or coupon takes nothing off the price.

    These are offers of messages or points; a coupon that was not used; and, in the form of NCR ACS,
    the share of single articles in a reward that has its own line (detailed, not summarized).
    """
    attributes = {key.rpartition("}")[2]: value for key, value in element.items()}
    category = xml.text(element, "RewardCategory")
    is_detailed = attributes.get("detailedData") == "true"
    is_share = is_detailed and attributes.get("summarizedActivity") != "true"
    return is_share or category not in (None, "Monetary") or xml.is_set(element, "UnusedFlag")


def _carries_money(element: Element) -> bool:
    """Whether the element contains an amount other than zero."""
    amounts = (part for part in element.iter() if xml.name(part).endswith(_MONEY))
    texts = [(part.text or "").strip() for part in amounts]
    return any(read_number(text) != ZERO for text in texts if text)


def _set_signs(lines: Sequence[PoslogLine]) -> None:
    """Give returns and discounts the signs with which they count; tills write either."""
    back = [line for line in lines if line.role == "goods_back" and not line.is_cancelled]
    are_positive, is_back = _sum_amounts(back) > 0, is_return(lines)
    for line in lines:
        if line.role == "goods_back":
            if are_positive and isinstance(line.total, Decimal):
                line.total = -line.total
            line.amount = without_sign(line.amount, is_negative=True) or ZERO
        if line.role == "discount":
            # The discount of a returned article is taken back, so its sign is reversed.
            line.total = without_sign(line.total, is_negative=not is_back)
            line.amount = -ONE if is_back else ONE


def _sum_amounts(lines: Sequence[PoslogLine]) -> Decimal:
    totals = (line.total for line in lines if isinstance(line.total, Decimal))
    amounts = (line.amount for line in lines if isinstance(line.amount, Decimal))
    return sum(totals, ZERO) or sum(amounts, ZERO)


def _unit_price(line: PoslogLine) -> str | None:
    """The price of one unit, to a ten-thousandth of a cent; only the total counts."""
    if not isinstance(line.total, Decimal) or not isinstance(line.amount, Decimal):
        return as_text(line.total)
    try:
        price = (line.total / line.amount).quantize(_CENT_OF_A_CENT)
    except DecimalException:
        price = line.total
    return format(abs(price), "f")


def read_net_total(
    retail: Element, lines: Sequence[PoslogLine], currency: str | None
) -> str | None:
    """The till's total to check, with tax or without, as the lines are.

    Net and grand totals are both read. Neither says whether it includes tax, so the reading that is
    nearest to the lines is taken for each. The total that is farther away is returned, so that the
    contract refuses the receipt if one of the two does not fit. None if no total is given.
    """
    totals = [
        (role, amount)
        for role, total, amount in _read_totals(retail)
        if total.get("CurrencyCode") in (None, currency) and total.get("Type") != "Estimated"
    ]
    # The schema leaves it to the till whether the lines include tax.
    nets = [amount for role, amount in totals if role == "net"]
    counted = [line for line in lines if line.line_type not in PAYMENTS and not line.is_cancelled]
    numbers = [line.total for line in counted if isinstance(line.total, Decimal)]
    added = sum(numbers, ZERO)
    if not nets or len(numbers) < len(counted):
        return format(nets[0], "f") if nets else None
    tax = next((amount for role, amount in totals if role == "tax"), ZERO)
    tip = next((amount for role, amount in totals if role == "tip"), ZERO)
    is_back = is_return(lines)

    def distance(reading: Decimal) -> Decimal:
        return abs(reading - added)

    nearest = [min(_readings(net, tax, tip, is_back), key=distance) for net in nets]
    return format(max(nearest, key=distance), "f")


def read_tip(retail: Element) -> PoslogLine | None:
    """The line of the tip: the total of tips if there is one, else the sum of the tenders' tips."""
    totals = [amount for role, _, amount in _read_totals(retail) if role == "tip"]
    tenders = (
        read_number(xml.text(tender, "Tip"))
        for line_item in xml.children(retail, "LineItem")
        for tender in xml.children(line_item, "Tender")
    )
    tip = totals[0] if totals else sum((amount for amount in tenders if amount), ZERO)
    return PoslogLine("Tip", "tip", None, "Tip", tip, line_type="tip") if tip else None


def _readings(net: Decimal, tax: Decimal, tip: Decimal, is_back: bool) -> Iterator[Decimal]:
    for reading in (net, -net) if is_back else (net,):
        for taxed in (reading, reading - tax, reading + tax):
            yield from (taxed, taxed + tip)


def _read_totals(retail: Element) -> Iterator[tuple[str, Element, Decimal]]:
    """Role, element and amount of each known total; negative for money returned to the customer."""
    for total in xml.children(retail, "Total"):
        role = load_facts().totals.get(total.get("TotalType") or "")
        amount = read_number((total.text or "").strip())
        if role and amount is not None:
            # Amounts have no sign in the standard, but some tills write one all the same.
            yield role, total, -abs(amount) if total.get("TypeCode") == "Return" else amount
