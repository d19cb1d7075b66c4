"""Reads a stock document in one body: its head once, and a line for each article.

`{"store_id", "document_id", "happened_at", "kind", "lines": [{"item_id", "amount"}]}`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from ingest.contract import vendor
from ingest.contract.vendor import BodyItem, SkippedPart, VendorBody
from ingest.contract.wire import JsonObject, field_error

# The fields that name the document; they are repeated in the message of each line.
_HEAD_NAMES = ("store_id", "document_id", "happened_at", "kind")
# A line is identified by the first of these fields that it has.
_NAMES = ("line", "item_id", "item")


def messages(body: VendorBody) -> Iterator[bytes | SkippedPart]:
    """A message for each line, with the document's fields. Raises RejectedEvent, BodyTooLarge."""
    return vendor.collect_parts(_translate_parts(body), body.budget)


def _translate_parts(body: VendorBody) -> Iterator[BodyItem]:
    tree = vendor.parse_body(body.content, body.budget)
    items = vendor.enumerate_items(tree.get("lines"), "/lines")
    lines = [vendor.require_object(line, at) for at, line in items]
    if not lines:
        raise field_error("out_of_range", "/lines", "at least one is wanted")
    for name in _HEAD_NAMES:
        # A name of another type is refused by the contract, line by line.
        if isinstance(tree.get(name), str):
            vendor.read_name(tree[name], f"/{name}")
    _refuse_duplicate_lines(lines)
    head = {name: value for name, value in tree.items() if name != "lines"}
    for line in lines:
        yield from vendor.guard_event(_messages(head, line), line)


def _messages(head: JsonObject, line: JsonObject) -> Iterator[bytes]:
    yield vendor.encode_message(**{**head, **line})


def _refuse_duplicate_lines(lines: Sequence[JsonObject]) -> None:
    # The second of two pallets of one article would count as a duplicate of the first, and be
    # ignored. The names are compared as texts, because 7 and "7" are the same article.
    counts: Counter[str] = Counter()
    for line in lines:
        names = [name for name in _NAMES if name in line]
        counts.update(str(line[name]) for name in names[:1])
    alike = next((name for name, count in counts.items() if count > 1), None)
    if alike is not None:
        what = f"{alike[:60]} is there twice; number such lines in a field `line`"
        raise field_error("duplicate_field", "/lines", what)
