"""What is read of an XML body of tills: elements by their names, of any name space."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

from tally.errors import RejectedEvent

# When a receipt was closed: the first of these that the till writes.
_TIMES = ("EndDateTime", "POSLogDateTime", "ReceiptDateTime", "BeginDateTime")
# Elements within elements: POSLog has a dozen, and a parser keeps each that is open.
_MOST_DEPTH = 10_000
# A parser copies the address of a name space into the name of each element and attribute.
_MOST_NAME_SPACE = 256
# Its declaration with so long an address, or one in which that begins too far behind to be seen.
_LONG_NAME_SPACE = re.compile(
    rb"xmlns(?:[^\s=]{99}|[^\s=]{0,98}(?:\s{99}|\s{0,98}=(?:\s{99}|\s{0,98}(?:\"[^\"]{257}|'[^']{257}))))"
)
_MOST_DECLARATION = 1024


def transactions(content: BinaryIO) -> Iterator[Element]:
    """The transactions of a POSLog, or the one that the body is.

    One at a time: a body of any size takes the memory of its largest transaction. Raises
    RejectedEvent not_xml for anything else, and for a DTD: of one a parser could be made to read
    files, or to fill the memory.
    """
    found = 0
    for element in _outermost_transactions(content):
        found += 1
        yield element
    if not found:
        raise RejectedEvent("missing_field", "/Transaction", "the body has no Transaction")


@dataclass(frozen=True)
class _CheckedReads:
    """A body that is read in pieces, each of which is looked at before it is parsed."""

    content: BinaryIO

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes. Raises RejectedEvent not_xml for the address of a name space of many
        characters, and for an encoding in which none would be found."""
        before = self.content.tell()
        piece = self.content.read(size)
        # It may begin in this piece and end in the next one.
        ahead = self.content.read(_MOST_DECLARATION)
        self.content.seek(before + len(piece))
        if b"\0" in piece:
            raise RejectedEvent("not_xml", "", "the body has zero bytes; send it as UTF-8")
        if _LONG_NAME_SPACE.search(piece + ahead):
            raise RejectedEvent(
                "not_xml", "", f"a name space has more than {_MOST_NAME_SPACE} characters"
            )
        return piece


def read_root(content: BinaryIO) -> Element:
    """The outermost element as it begins, with its attributes. Raises RejectedEvent."""
    return next(_parsed(content))[1]


def closing_time(transaction: Element) -> str | None:
    """When the transaction was closed, as the till writes it."""
    times = (text(transaction, wanted) for wanted in _TIMES)
    return next(filter(None, times), None)


def _outermost_transactions(content: BinaryIO) -> Iterator[Element]:
    """Wherever they stand: the body itself, below its root, in an envelope, or in batches."""
    opened: list[Element] = []
    within = 0
    for event, element in _parsed(content):
        # Asked of each element twice: most are told by the end of the name.
        is_transaction = element.tag.endswith("Transaction") and name(element) == "Transaction"
        if event == "start":
            opened.append(element)
            if len(opened) > _MOST_DEPTH:
                message = f"elements are nested more than {_MOST_DEPTH:,} deep"
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
            # Else everything that was read would be kept.
            opened[-1].clear()


def _parsed(content: BinaryIO) -> Iterator[tuple[str, Element]]:
    try:
        yield from iterparse(_CheckedReads(content), ("start", "end"), forbid_dtd=True)
    except DefusedXmlException as error:
        raise RejectedEvent("not_xml", "", "the body has a DTD; none is read") from error
    # A name of an encoding that nobody knows is a LookupError.
    except (ParseError, ValueError, LookupError) as error:
        raise RejectedEvent("not_xml", "", f"the body is no XML: {error}") from error


def name(element: Element) -> str:
    """The element's name without its space."""
    # Some tills write their own name space, some none.
    return str(element.tag).rpartition("}")[2]


def children(element: Element, wanted: str) -> list[Element]:
    """Its children of this name."""
    return [one for one in element if name(one) == wanted]


def child(element: Element, wanted: str) -> Element | None:
    """Its first child of this name; None where there is none."""
    return next(iter(children(element, wanted)), None)


def text(element: Element, *path: str) -> str | None:
    """The text at the end of the path; None where there is none."""
    found: Element | None = element
    for step in path:
        found = None if found is None else child(found, step)
    return None if found is None else (found.text or "").strip() or None


def attribute(element: Element, of: str, wanted: str) -> str | None:
    """An attribute of its first child `of`."""
    found = child(element, of)
    return None if found is None else found.get(wanted)


def is_set(element: Element, flag: str) -> bool:
    """Whether an attribute says true; what is not written was not said."""
    return element.get(flag) in ("true", "1")
