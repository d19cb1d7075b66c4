"""POSLog 6 (ARTS, now OMG Retail): transactions of tills as XML.

Amounts carry no sign there: an element says whether goods were sold or came back, an attribute
whether an amount is added. Times are those of the store's clock. Source: POSLogV6.0.0.xsd.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, DecimalException
from typing import Any, NamedTuple, TypeAlias
from xml.etree.ElementTree import Element

from ingest.contract.arrival import Rules
from ingest.contract.vendor import Skipped, VendorBody, message
from ingest.sources.sales import xml
from tally.errors import BadInstant
from tally.instants import instant_text, instants_showing, parse_instant

LineFields: TypeAlias = dict[str, Any]
# What their words mean here. A word that is not among them goes on as it is: the contract refuses
# it, and names it.
_STATUSES = {
    "Finished": "finished",
    "Delivered": "finished",
    "Tendered": "finished",
    "Totaled": "finished",
    "Returned": "finished",
    "PostVoided": "finished",
    "Replaced": "finished",
    "Revision": "finished",
    "Updated": "finished",
    "Canceled": "cancelled",
    "Suspended": "suspended",
    "SuspendedDeleted": "suspended",
    "InComplete": "incomplete",
    "InProcess": "in_process",
    "Failed": "failed",
    "Voided": "voided",
    "TransactionVoided": "voided",
    "Resumed": "resumed",
    "SuspendedRetrieved": "resumed",
}
_LINE_TYPES = {
    None: "item",
    "Stock": "item",
    "Service": "item",
    "Alteration": "item",
    "Warranty": "item",
    "Fee": "fee",
    "FeeRefund": "fee",
    "Deposit": "deposit",
    "DepositRefund": "deposit_refund",
    "GiftCertificate": "gift_card_sold",
}
_POST_VOIDED = "PostVoided"
_CORRECTIONS = ("Replaced", "Revision", "Updated")
_CENT_OF_A_CENT = Decimal("0.000001")
_YEAR_CHARACTERS = 4


def messages(body: VendorBody) -> Iterator[bytes | Skipped]:
    """A message for each retail transaction, in their order; of a corrected one two.

    Raises RejectedEvent for a body that is no POSLog.
    """
    clocks = _TillClocks(body.rules)
    for transaction in xml.transactions(body.content):
        retail = xml.child(transaction, "RetailTransaction")
        if retail is None:
            yield Skipped("transactions of another kind than RetailTransaction")
        else:
            yield from _messages(transaction, retail, clocks)


@dataclass
class _TillClocks:
    """Instants of times that tills have written by their store's clock."""

    rules: Rules
    reached: dict[tuple[str, str], datetime] = field(default_factory=dict)

    def told(self, store: str, till: str, said: str) -> str:
        """The time with its offset; as it is said where nothing tells which instant is meant.

        In the night in which clocks are set back an hour comes twice: of the two instants it is
        the one that is not before the till's last transaction, if the other one is.
        """
        found = self._instants(store, said)
        reached = self.reached.get((store, till))
        if len(found) > 1 and reached is not None:
            found = [one for one in found if one >= reached]
        if len(found) != 1:
            return said
        self.reached[store, till] = max(found[0], reached or found[0])
        return instant_text(found[0])

    def _instants(self, store: str, said: str) -> list[datetime]:
        try:
            return [parse_instant(said, "")]
        except BadInstant as error:
            if error.kind != "without_zone":
                return []
        try:
            return instants_showing(datetime.fromisoformat(said), self.rules.zone_of(store))
        except ValueError:
            return []


def _messages(transaction: Element, retail: Element, clocks: _TillClocks) -> Iterator[bytes]:
    store = xml.text(transaction, "BusinessUnit", "UnitID")
    store = store or xml.text(transaction, "RetailStoreID")
    till, ended = xml.text(transaction, "WorkstationID"), xml.text(transaction, "EndDateTime")
    numbers = _NumberRuns(store, clocks.rules)
    number = xml.text(transaction, "SequenceNumber")
    closed = clocks.told(store, till, ended) if store and till and ended else ended
    head: LineFields = {
        "happened_at": closed,
        "operation_id": store,
        "vendor_fiscal_module": till,
        "transaction_id": number,
        "numbering_epoch": numbers.epoch(transaction),
        "currency": xml.text(transaction, "CurrencyCode"),
        "training": xml.is_set(transaction, "TrainingModeFlag") or None,
    }
    if retail.get("TransactionStatus") in _CORRECTIONS:
        yield message(**head, kind="void", **_replaced(transaction, retail, numbers))
        head |= _number_of_correction(number, retail)
    lines = list(_lines(retail))
    yield message(
        **head,
        transaction_status=_status(transaction, retail),
        net_total=_net_total(retail),
        transactions=[line for line, _ in lines],
        **_kind(retail, [is_back for _, is_back in lines]),
        voids=_voided(transaction, retail, closed, numbers),
    )


def _replaced(transaction: Element, retail: Element, numbers: "_NumberRuns") -> LineFields:
    """Which receipt a corrected one replaces: what it said is not said again."""
    link = xml.child(retail, "TransactionLink")
    return {"voids": numbers.named(transaction if link is None else link), "transactions": []}


def _number_of_correction(number: str | None, retail: Element) -> LineFields:
    # Sent again under its own number it is another receipt than the one that it replaces.
    is_again = xml.child(retail, "TransactionLink") is None
    return {"transaction_id": f"{number}:corrected"} if number and is_again else {}


def _kind(retail: Element, are_back: list[bool]) -> LineFields:
    if _void_link(retail) is not None or retail.get("TransactionStatus") == _POST_VOIDED:
        return {"kind": "void"}
    return {"kind": "return"} if are_back and all(are_back) else {}


def _void_link(retail: Element) -> Element | None:
    """The link to the transaction that this one takes back."""
    # Where the schema has a default, what is not written was not said.
    links = xml.children(retail, "TransactionLink")
    return next((link for link in links if link.get("ReasonCode") == "Voided"), None)


def _voided(
    transaction: Element,
    retail: Element,
    happened: str | None,
    numbers: "_NumberRuns",
) -> LineFields | None:
    link, closed_at = _void_link(retail), None
    # Without a link it is the sale itself, sent again with the time at which it was closed.
    if link is None and retail.get("TransactionStatus") == _POST_VOIDED:
        link, closed_at = transaction, happened
    if link is None:
        return None
    told = numbers.named(link)
    return told if closed_at is None else {**told, "happened_at": closed_at}


def _lines(retail: Element) -> Iterator[tuple[LineFields, bool]]:
    """Each line of goods, and whether they came back. How it was paid, and taxes, are none."""
    for line in xml.children(retail, "LineItem"):
        is_cancelled = xml.is_set(line, "CancelFlag") or xml.is_set(line, "VoidFlag")
        for name in ("Sale", "Return"):
            if (goods := xml.child(line, name)) is not None:
                yield _line(goods, is_cancelled, name == "Return"), name == "Return"


def _line(goods: Element, is_cancelled: bool, is_back: bool) -> LineFields:
    amount, total = xml.text(goods, "Quantity") or "1", xml.text(goods, "ExtendedAmount")
    is_less = is_back != (xml.attribute(goods, "ExtendedAmount", "Action") == "Subtract")
    code = xml.text(goods, "POSIdentity", "POSItemID")
    sold_as = goods.get("ItemType")
    line = {
        "item": xml.text(goods, "Description") or code,
        "item_id": code,
        "category": xml.text(goods, "MerchandiseHierarchy"),
        "price": _price(total, amount),
        "amount": _signed(amount, is_back),
        "total": total and _signed(total, is_less),
        "line_type": _LINE_TYPES.get(sold_as, sold_as),
        "cancelled": is_cancelled or None,
    }
    return {name: value for name, value in line.items() if value is not None}


def _price(total: str | None, amount: str) -> str | None:
    """Of one unit, to a hundredth of a cent's hundredth: the total is what counts."""
    try:
        price = (Decimal(total or "") / Decimal(amount)).quantize(_CENT_OF_A_CENT)
    except DecimalException:
        return total
    return format(abs(price), "f")


def _signed(number: str, is_negative: bool) -> str:
    return f"-{number}" if is_negative else number


def _net_total(retail: Element) -> str | None:
    for total in xml.children(retail, "Total"):
        if total.get("TotalType") == "TransactionNetAmount":
            return (total.text or "").strip() or None
    return None


def _status(transaction: Element, retail: Element) -> str | None:
    if xml.is_set(transaction, "CancelFlag"):
        return "cancelled"
    said = retail.get("TransactionStatus")
    return None if said is None else _STATUSES.get(said, said)


class _NumberRuns(NamedTuple):
    """How the receipt numbers of a store begin again."""

    store: str | None
    rules: Rules

    def epoch(self, transaction: Element) -> str | None:
        """The business day, or its year, where the store's numbers begin again by it."""
        numbering = self.rules.numberings.get(self.store or "")
        day = xml.text(transaction, "BusinessDayDate")
        if numbering is None or day is None:
            return None
        return day if numbering.rule == "daily" else day[:_YEAR_CHARACTERS]

    def named(self, link: Element) -> LineFields:
        """The receipt that a link, or a transaction itself, is of."""
        told = {
            "vendor_fiscal_module": xml.text(link, "WorkstationID"),
            "transaction_id": xml.text(link, "SequenceNumber") or xml.text(link, "TransactionID"),
            "numbering_epoch": self.epoch(link),
        }
        return {name: value for name, value in told.items() if value is not None}
