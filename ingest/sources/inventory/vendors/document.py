"""Reads a stock document in one body: its head once, and a line for each article.

`{"store_id", "document_id", "happened_at", "kind", "lines": [{"item_id", "amount"}]}`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from ingest.contract.vendor import (
    SkippedPart,
    UnreadablePart,
    VendorBody,
    collect_parts,
    encode_message,
    enumerate_objects,
    guard_event,
    parse_body,
    read_name,
)
from ingest.contract.wire import JsonObject
from tally.errors import RejectedEvent

_LINES = "lines"
# The fields that name the document; they are repeated in the message of each line.
_HEAD_NAMES = ("store_id", "document_id", "happened_at", "kind")
# A line is identified by the first of these fields that it has.
_NAMES = ("line", "item_id", "item")


def messages(body: VendorBody) -> Iterator[bytes | SkippedPart]:
    """Yield a message for each line, with all of the document's other fields.

    Raises RejectedEvent for a body without lines, for names that no contract takes, and for lines
    that cannot be distinguished; BodyTooLarge.
    """
    return collect_parts(_translate_parts(body), body.budget)


def _translate_parts(body: VendorBody) -> Iterator[bytes | SkippedPart | UnreadablePart]:
    tree = parse_body(body.content, body.budget)
    lines = [line for _, line in enumerate_objects(tree.get(_LINES), f"/{_LINES}")]
    if not lines:
        raise RejectedEvent("out_of_range", f"/{_LINES}", f"/{_LINES}: at least one is wanted")
    for name in _HEAD_NAMES:
        # A name of another type is refused by the contract, line by line.
        if isinstance(tree.get(name), str):
            read_name(tree[name], f"/{name}")
    _refuse_duplicate_lines(lines)
    head = {name: value for name, value in tree.items() if name != _LINES}
    for line in lines:
        yield from guard_event(_messages(head, line), line)


def _messages(head: JsonObject, line: JsonObject) -> Iterator[bytes]:
    yield encode_message(**{**head, **line})


def _refuse_duplicate_lines(lines: Sequence[JsonObject]) -> None:
    # The second of two pallets of one article would count as a duplicate of the first, and be
    # ignored.
    counts = Counter(name for line in lines for name in _name(line))
    alike = next((name for name, count in counts.items() if count > 1), None)
    if alike is not None:
        raise RejectedEvent(
            "duplicate_field",
            f"/{_LINES}",
            f"/{_LINES}: {alike[:60]} is there twice; number such lines in a field `line`",
        )


def _name(line: JsonObject) -> list[str]:
    """The identifying name of a line, in a list; empty for a line that the contract refuses."""
    # As text, because 7 and "7" are the same article.
    names = [name for name in _NAMES if name in line]
    return [str(line[name]) for name in names[:1]]
