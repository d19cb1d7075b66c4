"""Cuts a POSLog of any size into bodies that the gateway takes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO
from xml.etree.ElementTree import Element, tostring

from ingest.contract.vendor import BodyPart
from ingest.sources.sales.poslog import xml

# Below the gateway's limits for a body: its bytes, stores and days.
_MAX_BYTES, _MAX_NAMES = 2_000_000, 60
# The first characters of a time: its date.
_DATE_CHARACTERS = 10


def cut_into_parts(content: BinaryIO) -> Iterator[BodyPart]:
    """Yield the bodies of a file, each with some of its transactions, in their order.

    Raises RejectedEvent for a file that is no POSLog.
    """
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
        names = max(len(self.stores), len(self.days))
        return bool(self.texts) and (self.size > _MAX_BYTES or names > _MAX_NAMES)


def _body(root: Element, transactions: list[bytes]) -> bytes:
    if xml.name(root) == "Transaction":
        return transactions[0]
    empty = tostring(Element(root.tag, root.attrib), short_empty_elements=False)
    head, _, tail = empty.rpartition(b"</")
    return b"".join((head, *transactions, b"</", tail))
