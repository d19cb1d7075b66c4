"""A body as a vendor's devices post it, and what an adapter makes of it.

An adapter (`vendors/<format>.py` of a source) only says the same in other words. It guesses
nothing: what it cannot read it passes on as it came, so that the contract refuses that one event
and names the field. One part that cannot be read takes no other with it.
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
# Numbers are written as they were read.
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_LEFT_OUT = "letters_left_out"
# Of a name that stands in every message of its body; no contract takes a longer one.
MOST_NAME = 64
_LARGEST_NAME = 10**MOST_NAME
# Of one interval: a sensor has some names for persons.
_MOST_COUNTS = 256
_UNREAD_REASONS = (
    *("not_json", "not_utf8", "too_deep", "too_large", "missing_field", "wrong_type"),
    *("out_of_range", "duplicate_field", "reading_failed", _LEFT_OUT),
)


@dataclass(frozen=True)
class VendorBody:
    """What was posted: content, when (UTC), under which parameters, and the rules that hold."""

    content: bytes
    arrived_at: datetime
    rules: Rules
    parameters: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def budget(self) -> WorkBudget:
        """What the body may cost, and has cost."""
        return WorkBudget(len(self.content))


class Skipped(NamedTuple):
    """A part of a body that is no event, and why; it is counted in the answer and kept nowhere."""

    reason: str


class Unread(NamedTuple):
    """A part of a body that is not of its form: why, and what stands for it.

    That is a message that every contract refuses, or Skipped where nothing in it could count.
    """

    error: RejectedEvent
    instead: bytes | Skipped


_EMPTY = Skipped("parts without anything in them")
# Name and count as a device says them, whatever they are.
NamedCounts: TypeAlias = Sequence[tuple[Any, Any]]
# Begin and end as a device says them, whatever they are.
DeviceSpan: TypeAlias = tuple[Any, Any]
# Raises RejectedEvent for a body that it cannot read at all.
Messages: TypeAlias = Callable[[VendorBody], Iterator[bytes | Skipped]]
# What a vendor's cloud wants to read at the address before it sends; None where nobody has set it.
Greeting: TypeAlias = Callable[[Rules], str | None]


class BodyPart(NamedTuple):
    """A part of a large body that can be sent by itself, and how many events stand before it."""

    events_before: int
    content: bytes


# Cuts a file of any size into bodies. Raises RejectedEvent where it cannot be read further.
Cutter: TypeAlias = Callable[[BinaryIO], Iterator[BodyPart]]


class VendorForm(NamedTuple):
    """A vendor's form: what makes messages of its bodies, and what is said to who asks first.

    `parts` cuts a file that is too large for one body; None where nobody can.
    """

    messages: Messages
    greeting: Greeting | None = None
    parts: Cutter | None = None


def message(**fields: Any) -> bytes:
    """A message of the source, of the fields that are not None."""
    told = {name: value for name, value in fields.items() if value is not None}
    return _ENCODER.encode(told)


def unread(part: Any, error: RejectedEvent, serial: object = None) -> Unread:
    """A part that is not of its form, perhaps with the serial of its sender.

    Below a name of its own: what looks like a message of Tally's would else be counted.
    """
    if part in (None, "", [], {}):
        return Unread(error, _EMPTY)
    why = {"reason": error.reason, "field": error.field, "message": error.message}
    # Cut: it stands in the message of each part of its body.
    known = serial[:MOST_NAME] if isinstance(serial, str) else None
    return Unread(error, message(serial=known, **why, unread=part))


def left_out(letters: Mapping[str, int]) -> bytes:
    """The message that stands for the refused events of a body that are not kept, by reason."""
    message = f"{sum(letters.values()):,} more events of the body were refused, and are not kept"
    found = unread(dict(letters), RejectedEvent(_LEFT_OUT, "", message)).instead
    assert isinstance(found, bytes)
    return found


def refuse_unread(message: bytes | None, max_bytes: int) -> None:
    """Raise RejectedEvent for a message that stands for a part that could not be read: why."""
    # Looked for in the text first: of a thousand messages one is such.
    if message is None or b'"unread":' not in message:
        return
    tree = parsed(message, max_bytes)
    told = [tree.get(name) for name in ("reason", "field", "message")]
    reason, field, text = (one if isinstance(one, str) else "" for one in told)
    # Somebody else may write to the raw topic.
    if "unread" in tree and reason in _UNREAD_REASONS:
        raise RejectedEvent(reason, field, text)


def json_tree(content: bytes, budget: WorkBudget) -> JsonObject:
    """The JSON object of a body. Raises RejectedEvent, TooMuch."""
    count_values(content, budget)
    return parsed(content, len(content))


def count_values(content: bytes, budget: WorkBudget) -> None:
    """Counts the values of JSON, before anything is made of them. Raises TooMuch."""
    # One of two bytes takes a hundred in memory.
    budget.count_steps(sum(content.count(sign) for sign in (b",", b"{", b"[")))


def bounded_name(value: Any, at: str) -> str:
    """A name that stands in each message of a body: text, or a whole number as its text.

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
    """What the call returns. Raises FailedReading for errors that are not known."""
    try:
        return read()
    # Known ones are for whoever asked; without memory nothing can be said of the event.
    except (TallyError, MemoryError):
        raise
    except Exception as error:
        raise FailedReading(error) from error


def read_event(
    messages: Iterable[bytes | Skipped | Unread], part: Any, serial: object = None
) -> Iterator[bytes | Skipped | Unread]:
    """The messages of one event, all or, where reading it fails, one that stands for the part."""
    try:
        found = read_safely(lambda: list(messages))
    except FailedReading as error:
        found = [unread(part, error, serial).instead]
    yield from found


def read_parts(
    parts: Iterable[bytes | Skipped | Unread], budget: WorkBudget
) -> Iterator[bytes | Skipped]:
    """What the parts of a body become, those that cannot be read too, in their order.

    Raises RejectedEvent, that of the first part, where not one can be read; TooMuch.
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
        one = part.instead if isinstance(part, Unread) else part
        if is_read:
            yield from held
            held.clear()
            yield one
        else:
            held.append(one)
            held_bytes += len(one) if isinstance(one, bytes) else 0
            budget.check_bytes(held_bytes)
            if len(held) > MOST_EVENTS:
                break
    if refusal is not None and not is_read:
        raise refusal


def placed(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    """What stands in a list, each with its JSON pointer. Raises RejectedEvent for no list."""
    if not isinstance(value, list):
        raise not_a("list", at)
    for number, one in enumerate(value):
        yield f"{at}/{number}", one


def objects(value: Any, at: str) -> Iterator[tuple[str, JsonObject]]:
    """The objects of a list, each with its JSON pointer.

    Raises RejectedEvent wrong_type for anything else: of a body of another shape nothing is known.
    """
    for place, one in placed(value, at):
        yield place, an_object(one, place)


def counts(value: Any, name: str, count: str) -> NamedCounts:
    """Two fields of each object of a list, None where one is missing; what is no object, or no
    list of a few, is a count without a name."""
    if not isinstance(value, list):
        return [(None, value)]
    if len(value) > _MOST_COUNTS:
        return [(None, f"{len(value):,} counts")]
    return [_pair(one, name, count) for one in value]


def _pair(value: Any, name: str, count: str) -> tuple[Any, Any]:
    if not isinstance(value, dict):
        return None, value
    return value.get(name), value.get(count)


def an_object(value: Any, at: str) -> JsonObject:
    """The value, an object. Raises RejectedEvent wrong_type."""
    if not isinstance(value, dict):
        raise not_a("object", at)
    return value


def needed(fields: JsonObject, name: str, at: str) -> Any:
    """The value of a field without which nothing can be read. Raises RejectedEvent."""
    if fields.get(name) is None:
        place = f"{at}/{name}"
        raise RejectedEvent("missing_field", place, f"{place}: the field is missing")
    return fields[name]


def not_a(kind: Literal["list", "object"], at: str) -> RejectedEvent:
    """The error of a value of another kind."""
    article = "an" if kind == "object" else "a"
    return RejectedEvent("wrong_type", at, f"{at}: {article} {kind} is wanted")
