"""Reads POSLog 6 (ARTS, now OMG Retail): transactions of tills as XML.

The meaning of each of its words is in ../poslog/facts.yaml. Times are those of the store's clock.
Source: POSLogV6.0.0.xsd.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO, NamedTuple
from xml.etree.ElementTree import Element

from ingest.contract.vendor import (
    BodyPart,
    SkippedPart,
    UnreadablePart,
    VendorBody,
    encode_message,
    guard_event,
)
from ingest.contract.work import WorkBudget
from ingest.installation.arrival import Rules
from ingest.sources.sales.poslog import xml
from ingest.sources.sales.poslog.clocks import resolve_times
from ingest.sources.sales.poslog.facts import load_facts
from ingest.sources.sales.poslog.lines import LineFields, is_return, read_lines, to_fields
from ingest.sources.sales.poslog.parts import cut_into_parts
from ingest.sources.sales.poslog.totals import read_net_total, read_tip
from tally.time.instants import MAX_CHARACTERS

_YEAR_CHARACTERS = 4
# The longest text that names a receipt; it is repeated in several messages, and no contract takes a
# longer one.
_MAX_NAME = 300
# The longest word of the till's that an answer shows.
_MAX_KIND = 60


@dataclass
class PoslogReceipt:
    """A RetailTransaction, and the fields of its transaction that identify it."""

    transaction: Element
    retail: Element
    store: str | None
    till: str | None
    number: str | None
    closed_at: str | None

    @property
    def names(self) -> LineFields:
        """The fields that identify the receipt."""
        return {
            "operation_id": self.store,
            "vendor_fiscal_module": self.till,
            "transaction_id": self.number,
            "happened_at": self.closed_at,
        }


def messages(body: VendorBody) -> Iterator[bytes | SkippedPart]:
    """Yield a message for each retail transaction, in order; two if one replaces another receipt.

    Raises RejectedEvent for a body that is no POSLog; BodyTooLarge.
    """
    content = body.content
    # Counted before any object is made; each part is read twice.
    elements, attributes = content.count(b"<") - content.count(b"</"), content.count(b"=")
    body.budget.count_steps(elements * 5 // 2 + attributes * 3)
    # The body is read twice: a time's meaning depends on later receipts, and a tree of everything
    # would be large.
    times = _resolve_clocks(body)
    for transaction in xml.transactions(BytesIO(body.content)):
        receipts = _read_receipts(transaction, body.budget)
        if not receipts:
            yield SkippedPart("transactions of another kind than RetailTransaction")
        for receipt in receipts:
            receipt.closed_at = next(times)
            for part in guard_event(_to_messages(receipt, body), receipt.names):
                yield part.placeholder if isinstance(part, UnreadablePart) else part


def parts(content: BinaryIO) -> Iterator[BodyPart]:
    """The bodies of a file of any size. Raises RejectedEvent for a file that is no POSLog."""
    return cut_into_parts(content)


def _read_receipts(transaction: Element, budget: WorkBudget) -> list[PoslogReceipt]:
    """The receipts of a transaction. Raises BodyTooLarge for very many in a very large one."""
    retails = xml.children(transaction, "RetailTransaction")
    # For each receipt the transaction's own elements are read again.
    budget.count_steps(max(0, len(retails) - 1) * len(transaction))
    store = _name(transaction, "BusinessUnit", "UnitID") or _name(transaction, "RetailStoreID")
    till = _name(transaction, "WorkstationID")
    number = _name(transaction, "SequenceNumber") or _name(transaction, "TransactionID")
    closed_at = xml.closing_time(transaction)
    return [
        PoslogReceipt(
            transaction,
            retail,
            store,
            till,
            # Receipts of one transaction are distinguished by their place.
            f"{number}/{place}" if number and place > 1 else number,
            closed_at and closed_at[:MAX_CHARACTERS],
        )
        for place, retail in enumerate(retails, start=1)
    ]


def _name(element: Element, *path: str) -> str | None:
    """The text at the end of the path, cut at a length that no contract takes."""
    text = xml.text(element, *path)
    return text and text[:_MAX_NAME]


def _resolve_clocks(body: VendorBody) -> Iterator[str | None]:
    """When each receipt of the body was closed, in their order."""
    closing_times: list[str | None] = []
    # Each till has a clock of its own.
    by_till: dict[tuple[str | None, str | None], list[int]] = defaultdict(list)
    for transaction in xml.transactions(BytesIO(body.content)):
        for receipt in _read_receipts(transaction, body.budget):
            if receipt.closed_at:
                by_till[receipt.store, receipt.till].append(len(closing_times))
            closing_times.append(receipt.closed_at)
        # Each receipt becomes an event, or a skipped part.
        body.budget.check_events(len(closing_times))
    for (store, _), places in by_till.items():
        times = [str(closing_times[place]) for place in places]
        resolved = resolve_times(times, store, body.rules, body.arrived_at)
        for place, closed_at in zip(places, resolved, strict=True):
            closing_times[place] = closed_at
    return iter(closing_times)


def _to_messages(receipt: PoslogReceipt, body: VendorBody) -> Iterator[bytes | SkippedPart]:
    retail, numbers = receipt.retail, _ReceiptNumbers(receipt.store, body.rules)
    role = _read_role(receipt)
    if role == "skipped":
        kind_text = retail.get("TypeCode") or retail.get("TransactionStatus") or ""
        yield SkippedPart(f"RetailTransaction of the kind {kind_text[:_MAX_KIND]}")
        return
    lines = read_lines(retail, body.rules.item_types, body.budget)
    lines += [tip] if (tip := read_tip(retail)) else []
    currency = _name(receipt.transaction, "CurrencyCode")
    head: LineFields = {
        **receipt.names,
        "reference": _read_reference(receipt),
        "numbering_epoch": numbers.numbering_epoch(receipt.transaction),
        "currency": currency,
        "training": xml.is_set(receipt.transaction, "TrainingModeFlag") or None,
    }
    voids = _read_void(receipt, role, numbers)
    net_total = read_net_total(retail, lines, currency)
    if not lines and not voids and role not in _ENDING_ROLES and not float(net_total or 0):
        yield SkippedPart("RetailTransaction without a line that carries money")
        return
    # A correction replaces another receipt, or is a later version of its own.
    if role == "correction":
        replaced = _read_replaced_receipt(receipt, numbers)
        if replaced:
            yield encode_message(**head, kind="void", voids=replaced, transactions=[])
        else:
            head["replaces"] = True
    yield encode_message(
        **head,
        transaction_status=None if role in _COUNTING_ROLES else role,
        net_total=net_total,
        transactions=[to_fields(line) for line in lines],
        kind="void" if voids else "return" if is_return(lines) else None,
        voids=voids,
    )


# Roles of a receipt that counts, and of one that takes back an earlier one without lines.
_COUNTING_ROLES = ("finished", "void", "correction")
_ENDING_ROLES = ("cancelled", "voided")


def _read_role(receipt: PoslogReceipt) -> str:
    """The receipt's role by its flags, kind and status; an unknown word is its own role."""
    facts, retail = load_facts(), receipt.retail
    kind = retail.get("TypeCode") or "Transaction"
    # A missing status has the schema's default.
    status = retail.get("TransactionStatus") or "Finished"
    kind_role = facts.transaction_types.get(kind, kind)
    status_role = facts.statuses.get(status, status)
    if kind_role == "skipped":
        return kind_role
    if xml.is_set(receipt.transaction, "CancelFlag"):
        return "cancelled"
    if status_role == "refused":
        # The contract refuses the word, and names it.
        return status
    return status_role if kind_role == "counted" or status_role != "finished" else kind_role


def _read_reference(receipt: PoslogReceipt) -> str | None:
    """Another name of the receipt, which links may use."""
    transaction_id = _name(receipt.transaction, "TransactionID")
    return None if transaction_id == receipt.number else transaction_id


def _read_void(receipt: PoslogReceipt, role: str, numbers: "_ReceiptNumbers") -> LineFields | None:
    """The receipt that this one takes back: that of its link, or itself, sent again."""
    facts = load_facts()
    links = xml.children(receipt.retail, "TransactionLink")
    voiding = [
        link for link in links if facts.link_reasons.get(link.get("ReasonCode") or "") == "void"
    ]
    if voiding and role in ("finished", "void"):
        return numbers.name(voiding[0])
    if role != "void":
        return None
    # A receipt that is sent again has the time at which it was closed.
    fields = numbers.name(receipt.transaction)
    return fields if receipt.closed_at is None else {**fields, "happened_at": receipt.closed_at}


def _read_replaced_receipt(receipt: PoslogReceipt, numbers: "_ReceiptNumbers") -> LineFields | None:
    """The other receipt that a correction replaces; None if it is a version of its own receipt.

    Links for another reason (the receipt of returned goods, the order) do not count.
    """
    facts, fields = load_facts(), numbers.name(receipt.transaction)
    for link in xml.children(receipt.retail, "TransactionLink"):
        reason = link.get("ReasonCode")
        if reason is None or facts.link_reasons.get(reason) == "void":
            link_fields = numbers.name(link)
            if link_fields and any(
                fields.get(name) != value for name, value in link_fields.items()
            ):
                return link_fields
    return None


class _ReceiptNumbers(NamedTuple):
    """How the receipt numbers of a store begin again."""

    store: str | None
    rules: Rules

    def numbering_epoch(self, transaction: Element) -> str | None:
        """The business day, or its year, if the store's numbers begin again with it."""
        numbering = self.rules.numberings.get(self.store or "")
        day = _name(transaction, "BusinessDayDate")
        if numbering is None or day is None:
            return None
        return day if numbering.rule == "daily" else day[:_YEAR_CHARACTERS]

    def name(self, link: Element) -> LineFields:
        """The fields that identify the receipt of a link or of a transaction itself."""
        number = _name(link, "SequenceNumber")
        fields = {
            "vendor_fiscal_module": _name(link, "WorkstationID") if number else None,
            "transaction_id": number or _name(link, "TransactionID"),
            "numbering_epoch": self.numbering_epoch(link) if number else None,
        }
        return {name: value for name, value in fields.items() if value is not None}
