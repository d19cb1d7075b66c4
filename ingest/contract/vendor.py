"""A body as a vendor's devices post it, and what an adapter makes of it.

An adapter (`vendors/<format>.py` of a source) only says the same in other words. It guesses
nothing: what it cannot read it passes on as it came, so that the contract refuses that one event
and names the field.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import msgspec

from ingest.contract.arrival import Rules
from ingest.contract.wire import JsonObject
from tally.errors import RejectedEvent

# Numbers are written as they were read.
_ENCODER = msgspec.json.Encoder(decimal_format="number")


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


def objects(value: Any, at: str) -> Iterator[tuple[str, JsonObject]]:
    """The objects of a list, each with its JSON pointer.

    Raises RejectedEvent wrong_type for anything else: of a body of another shape nothing is known.
    """
    if not isinstance(value, list):
        raise RejectedEvent("wrong_type", at, f"{at}: a list is wanted")
    for number, one in enumerate(value):
        yield f"{at}/{number}", an_object(one, f"{at}/{number}")


def counts(value: Any, at: str, name: str, count: str) -> NamedCounts:
    """Two fields of each object of a list, None where one is missing. Raises RejectedEvent."""
    found = [one for _, one in objects(value, at)]
    return [(one.get(name), one.get(count)) for one in found]


def an_object(value: Any, at: str) -> JsonObject:
    """The value, an object. Raises RejectedEvent wrong_type."""
    if not isinstance(value, dict):
        raise RejectedEvent("wrong_type", at, f"{at}: an object is wanted")
    return value
