"""Reads a till's own totals of a receipt, to be checked against the lines."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from xml.etree.ElementTree import Element

from ingest.sources.sales.poslog import xml
from ingest.sources.sales.poslog.facts import load_facts
from ingest.sources.sales.poslog.line import ZERO, PoslogLine, read_number
from ingest.sources.sales.poslog.lines import is_part_of_total, is_return, sum_lines


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
        for total in xml.children(retail, "Total")
        if (role := load_facts().totals.get(total.get("TotalType") or ""))
        and total.get("CurrencyCode") in (None, currency)
        and total.get("Type") != "Estimated"
        and (amount := _read_amount(total)) is not None
    ]
    # The schema leaves it to the till whether the lines include tax.
    nets = [amount for role, amount in totals if role == "net"]
    added = sum_lines([line for line in lines if is_part_of_total(line)])
    if not nets or added is None:
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
    totals = [
        amount
        for total in xml.children(retail, "Total")
        if load_facts().totals.get(total.get("TotalType") or "") == "tip"
        and (amount := _read_amount(total)) is not None
    ]
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


def _read_amount(total: Element) -> Decimal | None:
    """The amount; negative for money returned to the customer, according to TypeCode."""
    amount = read_number((total.text or "").strip())
    # Amounts have no sign in the standard, but some tills write one all the same.
    return -abs(amount) if amount is not None and total.get("TypeCode") == "Return" else amount
