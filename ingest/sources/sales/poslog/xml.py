"""Reads the XML bodies of tills: elements by their names, in any namespace."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

from tally.errors import RejectedEvent

# The time at which a receipt was closed is the first of these that the till writes.
_TIMES = ("EndDateTime", "POSLogDateTime", "ReceiptDateTime", "BeginDateTime")
# Nested elements: POSLog has a dozen levels, and a parser keeps each open element.
_MAX_DEPTH = 10_000
# A parser copies the address of a namespace into the name of each element and attribute.
_MAX_NAME_SPACE = 256
# A namespace declaration whose address is too long, or begins too far behind to be seen.
_LONG_NAME_SPACE = re.compile(
    rb"xmlns(?:[^\s=]{99}|[^\s=]{0,98}(?:\s{99}|\s{0,98}=(?:\s{99}|\s{0,98}(?:\"[^\"]{257}|'[^']{257}))))"
)
_MAX_DECLARATION = 1024


def transactions(content: BinaryIO) -> Iterator[Element]:
    """Yield the transactions of a POSLog, or the one transaction that the body is.

    They come one at a time, so that a body of any size takes the memory of its largest transaction.
    Raises RejectedEvent not_xml for anything else, and for a DTD, because it could make a parser
    read files or fill the memory.
    """
    count = 0
    for element in _outermost_transactions(content):
        count += 1
        yield element
    if not count:
        raise RejectedEvent("missing_field", "/Transaction", "the body has no Transaction")


@dataclass(frozen=True)
class _CheckedStream:
    """A body that is read in pieces; each piece is checked before it is parsed."""

    content: BinaryIO

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes. Raises RejectedEvent for a long namespace, or where none can be found."""
        before = self.content.tell()
        piece = self.content.read(size)
        # A declaration may begin in this piece and end in the next one.
        ahead = self.content.read(_MAX_DECLARATION)
        self.content.seek(before + len(piece))
        if b"\0" in piece:
            raise RejectedEvent("not_xml", "", "the body has zero bytes; send it as UTF-8")
        if _LONG_NAME_SPACE.search(piece + ahead):
            what = f"a name space has more than {_MAX_NAME_SPACE} characters"
            raise RejectedEvent("not_xml", "", what)
        return piece


def read_root(content: BinaryIO) -> Element:
    """The outermost element with its attributes, before its content. Raises RejectedEvent."""
    return next(_parse_events(content))[1]


def closing_time(transaction: Element) -> str | None:
    """When the transaction was closed, as the till writes it."""
    times = (text(transaction, time_name) for time_name in _TIMES)
    return next(filter(None, times), None)


def _outermost_transactions(content: BinaryIO) -> Iterator[Element]:
    """The body itself, or those below its root, or deeper: in an envelope or in batches."""
    opened: list[Element] = []
    within = 0
    for event, element in _parse_events(content):
        # This runs twice for each element, and the end of the tag rules out most of them.
        is_transaction = element.tag.endswith("Transaction") and name(element) == "Transaction"
        if event == "start":
            opened.append(element)
            if len(opened) > _MAX_DEPTH:
                message = f"elements are nested more than {_MAX_DEPTH:,} deep"
                raise RejectedEvent("too_deep", "", message)
            within += is_transaction
            continue
        opened.pop()
        within -= is_transaction
        if within:
            continue
        if is_transaction:
            yield element
        if opened:
            # Without this the parser would keep everything that it has read.
            opened[-1].clear()


def _parse_events(content: BinaryIO) -> Iterator[tuple[str, Element]]:
    try:
        yield from iterparse(_CheckedStream(content), ("start", "end"), forbid_dtd=True)
    except DefusedXmlException as error:
        raise RejectedEvent("not_xml", "", "the body has a DTD; none is read") from error
    # An unknown encoding raises LookupError.
    except (ParseError, ValueError, LookupError) as error:
        raise RejectedEvent("not_xml", "", f"the body is no XML: {error}") from error


def name(element: Element) -> str:
    """The element's name without its namespace."""
    # Some tills write their own namespace, some none.
    return str(element.tag).rpartition("}")[2]


def children(element: Element, child_name: str) -> list[Element]:
    """The element's children with this name."""
    return [inner for inner in element if name(inner) == child_name]


def child(element: Element, child_name: str) -> Element | None:
    """The element's first child with this name; None if there is none."""
    return next(iter(children(element, child_name)), None)


def text(element: Element, *path: str) -> str | None:
    """The text at the end of the path; None if there is none."""
    current: Element | None = element
    for step in path:
        current = None if current is None else child(current, step)
    return None if current is None else (current.text or "").strip() or None


def attribute(element: Element, child_name: str, attribute_name: str) -> str | None:
    """An attribute of the element's first child with the name `child_name`."""
    inner = child(element, child_name)
    return None if inner is None else inner.get(attribute_name)


def is_set(element: Element, flag: str) -> bool:
    """Whether an attribute is true; a missing attribute is false."""
    return element.get(flag) in ("true", "1")
