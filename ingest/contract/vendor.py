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

from ingest.contract.arrival import Rules
from ingest.contract.wire import JsonObject, parsed
from ingest.contract.work import MOST_EVENTS, WorkBudget
from tally.errors import FailedReading, RejectedEvent, TallyError

_Read = TypeVar("_Read")
# A decimal is written as a JSON number, with the digits that were read.
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_LEFT_OUT = "letters_left_out"
# The longest name that is repeated in every message of its body; no contract takes a longer one.
MOST_NAME = 64
_LARGEST_NAME = 10**MOST_NAME
# Counts of one interval: a sensor has a few names for persons.
_MOST_COUNTS = 256
_UNREAD_REASONS = (
    *("not_json", "not_utf8", "too_deep", "too_large", "missing_field", "wrong_type"),
    *("out_of_range", "duplicate_field", "reading_failed", _LEFT_OUT),
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


class Skipped(NamedTuple):
    """A part of a body that is no event, and why; it is only counted in the answer."""

    reason: str


class Unread(NamedTuple):
    """A part of a body that does not follow its format: the error, and what stands for the part.

    `instead` is a message that every contract refuses, or Skipped if nothing in it could count.
    """

    error: RejectedEvent
    instead: bytes | Skipped


_EMPTY = Skipped("parts without anything in them")
# Name and count as a device wrote them, of any type.
NamedCounts: TypeAlias = Sequence[tuple[Any, Any]]
# Begin and end as a device wrote them, of any type.
DeviceSpan: TypeAlias = tuple[Any, Any]
# Splits a body into messages. Raises RejectedEvent for a body that it cannot read at all.
Messages: TypeAlias = Callable[[VendorBody], Iterator[bytes | Skipped]]
# Returns what a vendor's cloud reads at the address before it sends; None if it is not set.
Greeting: TypeAlias = Callable[[Rules], str | None]


class BodyPart(NamedTuple):
    """A part of a large body that can be sent by itself, and how many events precede it."""

    events_before: int
    content: bytes


# Cuts a file of any size into bodies. Raises RejectedEvent where it cannot be read further.
Cutter: TypeAlias = Callable[[BinaryIO], Iterator[BodyPart]]


class VendorForm(NamedTuple):
    """A vendor's format: `messages` reads its bodies, `greeting` answers a cloud that asks first.

    `parts` cuts a file that is too large for one body; None if the format cannot be cut.
    """

    messages: Messages
    greeting: Greeting | None = None
    parts: Cutter | None = None


def message(**fields: Any) -> bytes:
    """A message of the source, with the fields that are not None."""
    present = {name: value for name, value in fields.items() if value is not None}
    return _ENCODER.encode(present)


def unread(part: Any, error: RejectedEvent, serial: object = None) -> Unread:
    """Mark a part that does not follow its format, optionally with the serial of its sender.

    The part is stored in a field of its own: what looks like a message of Tally's would else be
    counted.
    """
    if part in (None, "", [], {}):
        return Unread(error, _EMPTY)
    why = {"reason": error.reason, "field": error.field, "message": error.message}
    # The serial is cut, because it is repeated in the message of each part of its body.
    known = serial[:MOST_NAME] if isinstance(serial, str) else None
    return Unread(error, message(serial=known, **why, unread=part))


def left_out(letters: Mapping[str, int]) -> bytes:
    """The message that stands for the refused events of a body that are not kept, by reason.

    `letters` has their number by reason.
    """
    message = f"{sum(letters.values()):,} more events of the body were refused, and are not kept"
    letter = unread(dict(letters), RejectedEvent(_LEFT_OUT, "", message)).instead
    assert isinstance(letter, bytes)
    return letter


def refuse_unread(message: bytes | None, max_bytes: int) -> None:
    """Raise RejectedEvent for a message that stands for an unread part, with the part's reason."""
    # The text is searched first, because only one of a thousand messages is such.
    if message is None or b'"unread":' not in message:
        return
    tree = parsed(message, max_bytes)
    values = [tree.get(name) for name in ("reason", "field", "message")]
    reason, field, text = (value if isinstance(value, str) else "" for value in values)
    # Other programs may write to the raw topic, so the reason is checked too.
    if "unread" in tree and reason in _UNREAD_REASONS:
        raise RejectedEvent(reason, field, text)


def json_tree(content: bytes, budget: WorkBudget) -> JsonObject:
    """The JSON object of a body. Raises RejectedEvent, TooMuch."""
    count_values(content, budget)
    return parsed(content, len(content))


def count_values(content: bytes, budget: WorkBudget) -> None:
    """Count the JSON values of a body before they are parsed. Raises TooMuch."""
    # A value of two bytes takes a hundred in memory.
    budget.count_steps(sum(content.count(sign) for sign in (b",", b"{", b"[")))


def bounded_name(value: Any, at: str) -> str:
    """A name that is repeated in each message of a body: text, or a whole number as its text.

    Raises RejectedEvent: wrong_type, out_of_range.
    """
    if type(value) is int and abs(value) < _LARGEST_NAME:
        value = str(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RejectedEvent("wrong_type", at, f"{at}: text is wanted")
    if isinstance(value, int) or len(value) > MOST_NAME:
        raise RejectedEvent("out_of_range", at, f"{at}: at most {MOST_NAME} characters are taken")
    return value


def read_safely(read: Callable[[], _Read]) -> _Read:
    """Call the function and return its result. Raises FailedReading for unexpected errors."""
    try:
        return read()
    # The caller handles known errors; a lack of memory says nothing about the event.
    except (TallyError, MemoryError):
        raise
    except Exception as error:
        raise FailedReading(error) from error


def read_event(
    messages: Iterable[bytes | Skipped | Unread], part: Any, serial: object = None
) -> Iterator[bytes | Skipped | Unread]:
    """The messages of one event; if reading it fails, one message that stands for the part."""
    try:
        found = read_safely(lambda: list(messages))
    except FailedReading as error:
        found = [unread(part, error, serial).instead]
    yield from found


def read_parts(
    parts: Iterable[bytes | Skipped | Unread], budget: WorkBudget
) -> Iterator[bytes | Skipped]:
    """The messages of a body's parts, in their order, including those that cannot be read.

    Raises RejectedEvent, that of the first part, if no part can be read; TooMuch.
    """
    refusal: RejectedEvent | None = None
    held: list[bytes | Skipped] = []
    held_bytes = 0
    is_read = False
    for part in parts:
        if not isinstance(part, Unread):
            is_read = True
        elif not is_read:
            refusal = refusal or part.error
        content = part.instead if isinstance(part, Unread) else part
        if is_read:
            yield from held
            held.clear()
            yield content
        else:
            held.append(content)
            held_bytes += len(content) if isinstance(content, bytes) else 0
            budget.check_bytes(held_bytes)
            if len(held) > MOST_EVENTS:
                break
    if refusal is not None and not is_read:
        raise refusal


def placed(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    """The items of a list, each with its JSON pointer. Raises RejectedEvent if it is no list."""
    if not isinstance(value, list):
        raise not_a("list", at)
    for number, item in enumerate(value):
        yield f"{at}/{number}", item


def objects(value: Any, at: str) -> Iterator[tuple[str, JsonObject]]:
    """The objects of a list, each with its JSON pointer.

    Raises RejectedEvent wrong_type for anything else: a body of another shape cannot be read.
    """
    for place, item in placed(value, at):
        yield place, an_object(item, place)


def counts(value: Any, name: str, count: str) -> NamedCounts:
    """Two fields of each object of a list, its name and its count; None for a missing field.

    A value that is no object, or no list of at most 256, becomes a count without a name.
    """
    if not isinstance(value, list):
        return [(None, value)]
    if len(value) > _MOST_COUNTS:
        return [(None, f"{len(value):,} counts")]
    return [_pair(item, name, count) for item in value]


def _pair(value: Any, name: str, count: str) -> tuple[Any, Any]:
    if not isinstance(value, dict):
        return None, value
    return value.get(name), value.get(count)


def an_object(value: Any, at: str) -> JsonObject:
    """The value, if it is an object. Raises RejectedEvent wrong_type if it is not."""
    if not isinstance(value, dict):
        raise not_a("object", at)
    return value


def needed(fields: JsonObject, name: str, at: str) -> Any:
    """The value of a field that the reader cannot do without. Raises RejectedEvent."""
    if fields.get(name) is None:
        place = f"{at}/{name}"
        raise RejectedEvent("missing_field", place, f"{place}: the field is missing")
    return fields[name]


def not_a(kind: Literal["list", "object"], at: str) -> RejectedEvent:
    """The error for a value that is not of this kind."""
    article = "an" if kind == "object" else "a"
    return RejectedEvent("wrong_type", at, f"{at}: {article} {kind} is wanted")
