"""A body as a vendor's devices post it, and the tools to turn it into messages.

An adapter (`vendors/<format>.py` of a source) only translates the format and guesses nothing. A
value that it cannot read it passes on unchanged, so that the contract refuses that one event and
names the field. A part that cannot be read does not affect the other parts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from ingest.contract.wire import JsonObject, parse_object
from ingest.contract.work import MAX_EVENTS, WorkBudget
from ingest.installation.arrival import Rules
from tally.errors import InternalReadError, RejectedEvent, TallyError

_Read = TypeVar("_Read")
# A decimal is written as a JSON number, with the digits that were read.
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_OMITTED_REASON = "letters_left_out"
# The longest name that is repeated in every message of its body; no contract takes a longer one.
MAX_NAME = 64
_LARGEST_NAME = 10**MAX_NAME
# Counts of one interval: a sensor has a few names for persons.
_MAX_COUNTS = 256
_PLACEHOLDER_REASONS = (
    *("not_json", "not_utf8", "too_deep", "too_large", "missing_field", "wrong_type"),
    *("out_of_range", "duplicate_field", "reading_failed", _OMITTED_REASON),
)


@dataclass(frozen=True)
class VendorBody:
    """A posted body: content, arrival (UTC), query parameters, and the installation's rules."""

    content: bytes
    arrived_at: datetime
    rules: Rules
    parameters: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def budget(self) -> WorkBudget:
        """The work that the body may cost, and has cost so far."""
        return WorkBudget(len(self.content))


class SkippedPart(NamedTuple):
    """A part of a body that is no event, and why; it is only counted in the answer."""

    reason: str


class UnreadablePart(NamedTuple):
    """A part of a body that does not follow its format: the error, and what stands for the part.

    `placeholder` is a message that every contract refuses, or SkippedPart if nothing in it could
    count.
    """

    error: RejectedEvent
    placeholder: bytes | SkippedPart


_EMPTY = SkippedPart("parts without anything in them")
# Name and count as a device wrote them, of any type.
NamedCounts: TypeAlias = Sequence[tuple[Any, Any]]
# Begin and end as a device wrote them, of any type.
DeviceSpan: TypeAlias = tuple[Any, Any]
# Splits a body into messages. Raises RejectedEvent for a body that it cannot read at all.
Messages: TypeAlias = Callable[[VendorBody], Iterator[bytes | SkippedPart]]
# Returns what a vendor's cloud reads at the address before it sends; None if it is not set.
Greeting: TypeAlias = Callable[[Rules], str | None]


class BodyPart(NamedTuple):
    """A part of a large body that can be sent by itself, and how many events precede it."""

    events_before: int
    content: bytes


# Cuts a file of any size into bodies. Raises RejectedEvent where it cannot be read further.
FileSplitter: TypeAlias = Callable[[BinaryIO], Iterator[BodyPart]]


class VendorFormat(NamedTuple):
    """A vendor's format: `messages` reads its bodies, `greeting` answers a cloud that asks first.

    `parts` cuts a file that is too large for one body; None if the format cannot be cut.
    """

    messages: Messages
    greeting: Greeting | None = None
    parts: FileSplitter | None = None


def encode_message(**fields: Any) -> bytes:
    """A message of the source, with the fields that are not None."""
    present = {name: value for name, value in fields.items() if value is not None}
    return _ENCODER.encode(present)


def make_placeholder(part: Any, error: RejectedEvent, serial: object = None) -> UnreadablePart:
    """Mark a part that does not follow its format, optionally with the serial of its sender.

    The part is stored in a field of its own: what looks like a message of Tally's would else be
    counted.
    """
    if part in (None, "", [], {}):
        return UnreadablePart(error, _EMPTY)
    why = {"reason": error.reason, "field": error.field, "message": error.message}
    # The serial is cut, because it is repeated in the message of each part of its body.
    known = serial[:MAX_NAME] if isinstance(serial, str) else None
    return UnreadablePart(error, encode_message(serial=known, **why, unread=part))


def omission_message(letters: Mapping[str, int]) -> bytes:
    """The message that stands for the refused events of a body that are not kept, by reason.

    `letters` has their number by reason.
    """
    message = f"{sum(letters.values()):,} more events of the body were refused, and are not kept"
    letter = make_placeholder(
        dict(letters), RejectedEvent(_OMITTED_REASON, "", message)
    ).placeholder
    assert isinstance(letter, bytes)
    return letter


def refuse_placeholder(message: bytes | None, max_bytes: int) -> None:
    """Raise RejectedEvent for a message that stands for an unread part, with the part's reason."""
    # The text is searched first, because only one of a thousand messages is such.
    if message is None or b'"unread":' not in message:
        return
    tree = parse_object(message, max_bytes)
    values = [tree.get(name) for name in ("reason", "field", "message")]
    reason, field, text = (value if isinstance(value, str) else "" for value in values)
    # Other programs may write to the raw topic, so the reason is checked too.
    if "unread" in tree and reason in _PLACEHOLDER_REASONS:
        raise RejectedEvent(reason, field, text)


def parse_body(content: bytes, budget: WorkBudget) -> JsonObject:
    """The JSON object of a body. Raises RejectedEvent, BodyTooLarge."""
    count_values(content, budget)
    return parse_object(content, len(content))


def count_values(content: bytes, budget: WorkBudget) -> None:
    """Count the JSON values of a body before they are parsed. Raises BodyTooLarge."""
    # A value of two bytes takes a hundred in memory.
    budget.count_steps(sum(content.count(sign) for sign in (b",", b"{", b"[")))


def read_name(value: Any, at: str) -> str:
    """A name that is repeated in each message of a body: text, or a whole number as its text.

    Raises RejectedEvent: wrong_type, out_of_range.
    """
    if type(value) is int and abs(value) < _LARGEST_NAME:
        value = str(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RejectedEvent("wrong_type", at, f"{at}: text is wanted")
    if isinstance(value, int) or len(value) > MAX_NAME:
        raise RejectedEvent("out_of_range", at, f"{at}: at most {MAX_NAME} characters are taken")
    return value


def read_safely(read: Callable[[], _Read]) -> _Read:
    """Call the function and return its result. Raises InternalReadError for unexpected errors."""
    try:
        return read()
    # The caller handles known errors; a lack of memory says nothing about the event.
    except (TallyError, MemoryError):
        raise
    except Exception as error:
        raise InternalReadError(error) from error


def guard_event(
    messages: Iterable[bytes | SkippedPart | UnreadablePart], part: Any, serial: object = None
) -> Iterator[bytes | SkippedPart | UnreadablePart]:
    """Yield the messages of one event, or if reading it fails, one that stands for the part."""
    try:
        found = read_safely(lambda: list(messages))
    except InternalReadError as error:
        found = [make_placeholder(part, error, serial).placeholder]
    yield from found


def collect_parts(
    parts: Iterable[bytes | SkippedPart | UnreadablePart], budget: WorkBudget
) -> Iterator[bytes | SkippedPart]:
    """Yield the messages of a body's parts, in their order, including those that cannot be read.

    Raises RejectedEvent, that of the first part, if no part can be read; BodyTooLarge.
    """
    refusal: RejectedEvent | None = None
    unsent: list[bytes | SkippedPart] = []
    unsent_bytes = 0
    is_read = False
    for part in parts:
        if not isinstance(part, UnreadablePart):
            is_read = True
        elif not is_read:
            refusal = refusal or part.error
        content = part.placeholder if isinstance(part, UnreadablePart) else part
        if is_read:
            yield from unsent
            unsent.clear()
            yield content
        else:
            unsent.append(content)
            unsent_bytes += len(content) if isinstance(content, bytes) else 0
            budget.check_bytes(unsent_bytes)
            if len(unsent) > MAX_EVENTS:
                break
    if refusal is not None and not is_read:
        raise refusal


def enumerate_items(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    """The items of a list, each with its JSON pointer. Raises RejectedEvent if it is no list."""
    if not isinstance(value, list):
        raise wrong_type_error("list", at)
    for number, item in enumerate(value):
        yield f"{at}/{number}", item


def enumerate_objects(value: Any, at: str) -> Iterator[tuple[str, JsonObject]]:
    """The objects of a list, each with its JSON pointer.

    Raises RejectedEvent wrong_type for anything else: a body of another shape cannot be read.
    """
    for place, item in enumerate_items(value, at):
        yield place, require_object(item, place)


def read_counts(value: Any, name: str, count: str) -> NamedCounts:
    """Two fields of each object of a list, its name and its count; None for a missing field.

    A value that is no object, or no list of at most 256, becomes a count without a name.
    """
    if not isinstance(value, list):
        return [(None, value)]
    if len(value) > _MAX_COUNTS:
        return [(None, f"{len(value):,} counts")]
    return [_pair(item, name, count) for item in value]


def _pair(value: Any, name: str, count: str) -> tuple[Any, Any]:
    if not isinstance(value, dict):
        return None, value
    return value.get(name), value.get(count)


def require_object(value: Any, at: str) -> JsonObject:
    """The value, if it is an object. Raises RejectedEvent wrong_type if it is not."""
    if not isinstance(value, dict):
        raise wrong_type_error("object", at)
    return value


def require_value(fields: JsonObject, name: str, at: str) -> Any:
    """The value of a field that the reader cannot do without. Raises RejectedEvent."""
    if fields.get(name) is None:
        place = f"{at}/{name}"
        raise RejectedEvent("missing_field", place, f"{place}: the field is missing")
    return fields[name]


def wrong_type_error(kind: Literal["list", "object"], at: str) -> RejectedEvent:
    """The error for a value that is not of this kind."""
    article = "an" if kind == "object" else "a"
    return RejectedEvent("wrong_type", at, f"{at}: {article} {kind} is wanted")
