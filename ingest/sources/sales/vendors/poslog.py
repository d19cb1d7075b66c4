"""Reads POSLog 6 (ARTS, now OMG Retail): transactions of tills as XML.

The meaning of each of its words is in ../poslog/facts.yaml. Times are those of the store's clock.
Source: POSLogV6.0.0.xsd.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from typing import BinaryIO, NamedTuple
from xml.etree.ElementTree import Element, tostring

from ingest.contract import vendor
from ingest.contract.vendor import BodyPart, SkippedPart, VendorBody, WorkBudget
from ingest.installation.arrival import Rules
from ingest.sources.sales.poslog import xml
from ingest.sources.sales.poslog.facts import load_facts
from ingest.sources.sales.poslog.lines import (
    LineFields,
    is_return,
    read_lines,
    read_net_total,
    read_tip,
    to_fields,
)
from tally.errors import BadInstant
from tally.time.instants import MAX_CHARACTERS, format_utc, instants_at_local_time, parse_instant

# The first characters of a time: its year, and its date.
_YEAR_CHARACTERS, _DATE_CHARACTERS = 4, 10
# Of the bodies into which a file is cut: below the gateway's limits for a body.
_MAX_BYTES, _MAX_STORES_OR_DAYS = 2_000_000, 60
# The longest text that names a receipt; it is repeated in several messages, and no contract takes a
# longer one.
_MAX_NAME = 300
# The longest word of the till's that an answer shows.
_MAX_KIND = 60
# Roles of a receipt that counts, and of one that takes back an earlier one without lines.
_COUNTING_ROLES = ("finished", "void", "correction")
_ENDING_ROLES = ("cancelled", "voided")


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
        ids = {"operation_id": self.store, "vendor_fiscal_module": self.till}
        return {**ids, "transaction_id": self.number, "happened_at": self.closed_at}


def messages(body: VendorBody) -> Iterator[bytes | SkippedPart]:
    """A message a receipt; two if it replaces another. Raises RejectedEvent, BodyTooLarge."""
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
            yield from vendor.guard_event(_to_messages(receipt, body), receipt.names)


def parts(content: BinaryIO) -> Iterator[BodyPart]:
    """The bodies of a file of any size, in order. Raises RejectedEvent for what is no POSLog."""
    root = xml.read_root(content)
    content.seek(0)
    part = _OpenBody()
    before = 0
    for place, transaction in enumerate(xml.transactions(content)):
        text = tostring(transaction)
        part.add(transaction, len(text))
        if part.is_full:
            yield BodyPart(before, _body(root, part.texts))
            part, before = _OpenBody(), place
            part.add(transaction, len(text))
        part.texts.append(text)
    yield BodyPart(before, _body(root, part.texts))


@dataclass
class _OpenBody:
    """The transactions that are in the current body so far."""

    texts: list[bytes] = field(default_factory=list)
    size: int = 0
    stores: set[str | None] = field(default_factory=set)
    days: set[str] = field(default_factory=set)

    def add(self, transaction: Element, size: int) -> None:
        """Note one more transaction of `size` bytes."""
        self.size += size
        self.stores.add(xml.text(transaction, "BusinessUnit", "UnitID"))
        self.days.add((xml.closing_time(transaction) or "")[:_DATE_CHARACTERS])

    @property
    def is_full(self) -> bool:
        """Whether the last transaction has to go into another body."""
        most = max(len(self.stores), len(self.days))
        return bool(self.texts) and (self.size > _MAX_BYTES or most > _MAX_STORES_OR_DAYS)


def _body(root: Element, transactions: list[bytes]) -> bytes:
    if xml.name(root) == "Transaction":
        return transactions[0]
    empty = tostring(Element(root.tag, root.attrib), short_empty_elements=False)
    head, _, tail = empty.rpartition(b"</")
    return b"".join((head, *transactions, b"</", tail))


def _read_receipts(transaction: Element, budget: WorkBudget) -> list[PoslogReceipt]:
    retails = xml.children(transaction, "RetailTransaction")
    # For each receipt the transaction's own elements are read again.
    budget.count_steps(max(0, len(retails) - 1) * len(transaction))
    store = _name(transaction, "BusinessUnit", "UnitID") or _name(transaction, "RetailStoreID")
    till = _name(transaction, "WorkstationID")
    number = _name(transaction, "SequenceNumber") or _name(transaction, "TransactionID")
    closed_at = (xml.closing_time(transaction) or "")[:MAX_CHARACTERS] or None
    receipts = [
        PoslogReceipt(transaction, retail, store, till, number, closed_at) for retail in retails
    ]
    # Receipts of one transaction are distinguished by their place.
    for place, receipt in enumerate(receipts[1:], start=2):
        receipt.number = number and f"{number}/{place}"
    return receipts


def _name(element: Element, *path: str) -> str | None:
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
        resolved = _resolve_times(times, store, body.rules, body.arrived_at)
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
    # Another name of the receipt, which links may use.
    own_name = _name(receipt.transaction, "TransactionID")
    head: LineFields = {
        **receipt.names,
        "reference": None if own_name == receipt.number else own_name,
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
            yield vendor.encode_message(**head, kind="void", voids=replaced, transactions=[])
        else:
            head["replaces"] = True
    yield vendor.encode_message(
        **head,
        transaction_status=None if role in _COUNTING_ROLES else role,
        net_total=net_total,
        transactions=[to_fields(line) for line in lines],
        kind="void" if voids else "return" if is_return(lines) else None,
        voids=voids,
    )


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


def _read_void(receipt: PoslogReceipt, role: str, numbers: "_ReceiptNumbers") -> LineFields | None:
    """The receipt that this one takes back: that of its link, or itself, sent again."""
    links, reasons = xml.children(receipt.retail, "TransactionLink"), load_facts().link_reasons
    voiding = [link for link in links if reasons.get(link.get("ReasonCode") or "") == "void"]
    if voiding and role in ("finished", "void"):
        return numbers.name(voiding[0])
    if role != "void":
        return None
    # A receipt that is sent again has the time at which it was closed.
    fields = numbers.name(receipt.transaction)
    return fields if receipt.closed_at is None else {**fields, "happened_at": receipt.closed_at}


def _read_replaced_receipt(receipt: PoslogReceipt, numbers: "_ReceiptNumbers") -> LineFields | None:
    """The other receipt that a correction replaces; links for another reason do not count."""
    own = numbers.name(receipt.transaction)
    for link in xml.children(receipt.retail, "TransactionLink"):
        reason = link.get("ReasonCode")
        if reason is None or load_facts().link_reasons.get(reason) == "void":
            named = numbers.name(link)
            if any(own.get(name) != value for name, value in named.items()):
                return named
    return None


class _ReceiptNumbers(NamedTuple):
    """How the receipt numbers of a store begin again."""

    store: str | None
    rules: Rules

    def numbering_epoch(self, transaction: Element) -> str | None:
        """The business day, or its year, if the store's numbers begin again with it."""
        rule = self.rules.numberings.get(self.store or "")
        day = _name(transaction, "BusinessDayDate")
        if rule is None or day is None:
            return None
        return day if rule == "daily" else day[:_YEAR_CHARACTERS]

    def name(self, link: Element) -> LineFields:
        """The fields that identify the receipt of a link or of a transaction itself."""
        number = _name(link, "SequenceNumber")
        fields = {
            "vendor_fiscal_module": _name(link, "WorkstationID") if number else None,
            "transaction_id": number or _name(link, "TransactionID"),
            "numbering_epoch": self.numbering_epoch(link) if number else None,
        }
        return {name: value for name, value in fields.items() if value is not None}


def _resolve_times(
    times: Sequence[str], store: str | None, rules: Rules, arrived_at: datetime
) -> list[str]:
    """The times of one till, in the order of its receipts, each with its offset.

    In the night in which clocks are set back an hour occurs twice. Which of the two instants is
    meant follows from the receipts before and after it, because no till goes back in time, and
    from the arrival, because no receipt is later. A time that stays ambiguous is returned as it was
    written.

    Without an offset: 01:58, 02:05, 02:40, 02:10, 02:50, 03:05. Between 02:40 and 02:10 the clock
    was set back.
    """
    latest = arrived_at + rules.future_tolerance
    readings = [_instants(time_text, store, rules) for time_text in times]
    # An instant in the future was not meant, unless no other is possible.
    possible = [
        [instant for instant in instants if instant <= latest] or instants for instants in readings
    ]
    first, last = _order(possible, min), _order(reversed(possible), max)
    return [
        format_utc(low) if low is not None and low == high else time_text
        for time_text, low, high in zip(times, first, reversed(last), strict=True)
    ]


def _order(
    possible: Iterable[Sequence[datetime]], nearest: Callable[[Iterable[datetime]], datetime]
) -> list[datetime | None]:
    """The earliest instant of each time that never goes back; with `max`, backwards, the latest."""
    found: list[datetime | None] = []
    reached: datetime | None = None
    for instants in possible:
        pairs = ((reached or each, each) for each in instants)
        behind = [pair[1] for pair in pairs if nearest(pair) == pair[0]]
        # An unambiguous instant stands, even if it is earlier: bodies repeat receipts.
        is_sure = len(instants) == 1
        found.append(instants[0] if is_sure else nearest(behind) if behind else None)
        reached = found[-1] or reached
    return found


def _instants(time_text: str, store: str | None, rules: Rules) -> list[datetime]:
    """The possible instants of a time: one, in that night two, none if it cannot be read."""
    try:
        return [parse_instant(time_text, "")]
    except BadInstant as error:
        if error.kind != "without_zone":
            return []
    try:
        zone = rules.clocks.clock(store or "").zone
        return instants_at_local_time(datetime.fromisoformat(time_text), zone)
    except ValueError:
        return []
