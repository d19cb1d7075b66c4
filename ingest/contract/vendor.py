"""A body as a vendor's devices post it, and what an adapter makes of it.

An adapter (`vendors/<format>.py` of a source) only says the same in other words. It guesses
nothing: what it cannot read it passes on as it came, so that the contract refuses that one event
and names the field. One part that cannot be read takes no other with it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias

import msgspec

from ingest.contract.arrival import Rules
from ingest.contract.wire import JsonObject
from tally.errors import RejectedEvent

# Numbers are written as they were read.
_ENCODER = msgspec.json.Encoder(decimal_format="number")
# Parts that are kept until one can be read; of a body no more events are taken (gateway).
_MOST_HELD = 50_000
_MOST_SERIAL = 100
_UNREAD_REASONS = (
    *("not_json", "not_utf8", "too_deep", "too_large", "missing_field", "wrong_type"),
    *("out_of_range", "duplicate_field"),
)


@dataclass(frozen=True)
class VendorBody:
    """What was posted: content, when (UTC), under which parameters, and the rules that hold."""

    content: bytes
    arrived_at: datetime
    rules: Rules
    parameters: Mapping[str, str] = field(default_factory=dict)


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
    known = serial[:_MOST_SERIAL] if isinstance(serial, str) else None
    return Unread(error, message(serial=known, **why, unread=part))


def refuse_unread(tree: JsonObject) -> None:
    """Raise RejectedEvent for a message that stands for a part that could not be read: why."""
    told = [tree.get(name) for name in ("reason", "field", "message")]
    reason, field, text = (one if isinstance(one, str) else "" for one in told)
    # Somebody else may write to the raw topic.
    if "unread" in tree and reason in _UNREAD_REASONS:
        raise RejectedEvent(reason, field, text)


def read_parts(
    parts: Iterable[bytes | Skipped | Unread], max_bytes: int
) -> Iterator[bytes | Skipped]:
    """What the parts of a body become, those that cannot be read too, in their order.

    Raises RejectedEvent, that of the first part, where not one can be read. Of a message that is
    larger than any contract takes as much is kept as shows that.
    """
    refusal: RejectedEvent | None = None
    held: list[bytes | Skipped] = []
    is_read = False
    for part in parts:
        if not isinstance(part, Unread):
            is_read = True
        elif not is_read:
            refusal = refusal or part.error
        one = part.instead if isinstance(part, Unread) else part
        held.append(one[: max_bytes + 1] if isinstance(one, bytes) else one)
        if is_read:
            yield from held
            held.clear()
        elif len(held) > _MOST_HELD:
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
    list, is a count without a name."""
    if not isinstance(value, list):
        return [(None, value)]
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
