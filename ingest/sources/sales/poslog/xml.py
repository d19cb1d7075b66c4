"""What is read of an XML body of tills: elements by their names, of any name space."""

from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from tally.errors import RejectedEvent


def transactions(content: bytes) -> list[Element]:
    """The transactions of a POSLog, or the one that the body is.

    Raises RejectedEvent not_xml for anything else, and for a DTD: of one a parser could be made to
    read files, or to fill the memory.
    """
    try:
        root: Element = fromstring(content, forbid_dtd=True)
    except DefusedXmlException as error:
        raise RejectedEvent("not_xml", "", "the body has a DTD; none is read") from error
    # A name of an encoding that nobody knows is a LookupError.
    except (ParseError, ValueError, LookupError) as error:
        raise RejectedEvent("not_xml", "", f"the body is no XML: {error}") from error
    found = [root] if name(root) == "Transaction" else children(root, "Transaction")
    if not found:
        raise RejectedEvent("missing_field", "/Transaction", "the body has no Transaction")
    return found


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
