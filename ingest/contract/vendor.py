"""A body as a vendor's devices post it, and the tools to turn it into messages.

An adapter (`vendors/<format>.py` of a source) only translates the format and guesses nothing. A
value that it cannot read it passes on unchanged, so that the contract refuses that one event and
names the field. A part that cannot be read does not affect the other parts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, BinaryIO, NamedTuple, TypeAlias, TypeVar

import msgspec

from ingest.contract.wire import JsonObject, field_error, parse_object
from ingest.installation.arrival import Rules
from tally.errors import BodyTooLarge, InternalReadError, RejectedEvent, TallyError

# The bytes of messages that a body may become, in addition to twice its own bytes.
FREE_BYTES = 2**20
# Events of a vendor's body; a vendor cannot send fewer at once: a mall's minute has 13,500.
MAX_EVENTS = 50_000
# Steps are JSON values, XML tags, and other parts that are read. No honest body of 5 MiB has so
# many; as decimals they take 50 MB.
MAX_STEPS = 480_000
# Dead letters of one body; further ones are only counted by reason, in one additional letter.
MAX_LETTERS = 100
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

_Read = TypeVar("_Read")


class WorkBudget:
    """What one body has cost so far: bytes made, events, dead letters and steps.

    Each count raises BodyTooLarge beyond its bound; then nothing of the body is stored. A body's
    size bounds neither the size of its messages nor how often its parts are read: for example, a
    document's head is repeated in the message of each of its lines.
    """

    def __init__(self, taken_bytes: int) -> None:
        self.most_bytes = 2 * taken_bytes + FREE_BYTES
        self.message_bytes = self.events = self.steps = self.letters = 0
        self.omitted_letters: Counter[str] = Counter()

    def count_event(self, size: int) -> None:
        """Count one more event, whose message has `size` bytes. Raises BodyTooLarge."""
        self.events += 1
        self.message_bytes += size
        self.check_events(self.events)
        self.check_bytes(self.message_bytes)

    def check_events(self, count: int) -> None:
        """Raise BodyTooLarge for more events than a body may have."""
        if count > MAX_EVENTS:
            most = f"{MAX_EVENTS:,} events"
            raise BodyTooLarge(f"the body has more than {most}; send fewer of them at once")

    def check_bytes(self, size: int) -> None:
        """Raise BodyTooLarge for more bytes than may be made of the body."""
        if size > self.most_bytes:
            raise BodyTooLarge(
                f"the body would become more than {self.most_bytes:,} bytes of messages (twice its"
                f" own bytes and {FREE_BYTES:,}); send fewer events at once, with shorter names"
            )

    def count_steps(self, count: int = 1) -> None:
        """Count so many more reads of a part of the body. Raises BodyTooLarge."""
        self.steps += count
        if self.steps > MAX_STEPS:
            most = f"{MAX_STEPS:,} steps to be read (values, tags, lines)"
            raise BodyTooLarge(f"the body takes more than {most}; send fewer events at once")

    def admit_letter(self, reason: str, size: int, most_size: int) -> bool:
        """Whether a refused event is stored as a dead letter; if not, it is counted here."""
        is_kept = self.letters < MAX_LETTERS and size <= most_size
        if is_kept:
            self.letters += 1
        else:
            self.omitted_letters[reason] += 1
        return is_kept


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
    """A part that does not follow its format: the error, and a message that stands for it."""

    error: RejectedEvent
    placeholder: bytes | SkippedPart


_EMPTY = SkippedPart("parts without anything in them")
# What an adapter makes of a body: messages, parts that are no event, and parts that cannot be read.
BodyItem: TypeAlias = bytes | SkippedPart | UnreadablePart
# Name and count, or begin and end, as a device wrote them, of any type.
DevicePair: TypeAlias = tuple[Any, Any]
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
    """What reads a vendor's bodies, greets a cloud that asks first, and cuts too large files."""

    messages: Messages
    greeting: Greeting | None = None
    parts: FileSplitter | None = None


def encode_message(**fields: Any) -> bytes:
    """A message of the source, with the fields that are not None."""
    present = {name: value for name, value in fields.items() if value is not None}
    return _ENCODER.encode(present)


def make_placeholder(part: Any, error: RejectedEvent, serial: object = None) -> UnreadablePart:
    """Stands for an unreadable part, which is in a field of its own: it must never be counted."""
    if part in (None, "", [], {}):
        return UnreadablePart(error, _EMPTY)
    why = {"reason": error.reason, "field": error.field, "message": error.message}
    # The serial is cut, because it is repeated in the message of each part of its body.
    known = serial[:MAX_NAME] if isinstance(serial, str) else None
    return UnreadablePart(error, encode_message(serial=known, **why, unread=part))


def omission_message(letters: Mapping[str, int]) -> bytes:
    """The message for the refused events of a body that are not kept: their number by reason."""
    message = f"{sum(letters.values()):,} more events of the body were refused, and are not kept"
    error = RejectedEvent(_OMITTED_REASON, "", message)
    letter = make_placeholder(dict(letters), error).placeholder
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
    """A name that every message of a body repeats: text or a whole number. Raises RejectedEvent."""
    if type(value) is int and abs(value) < _LARGEST_NAME:
        value = str(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise field_error("wrong_type", at, "text is wanted")
    if isinstance(value, int) or len(value) > MAX_NAME:
        raise field_error("out_of_range", at, f"at most {MAX_NAME} characters are taken")
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
    messages: Iterable[_Read], part: Any, serial: object = None
) -> Iterator[_Read | bytes | SkippedPart]:
    """Yield the messages of one event, or if reading it fails, one that stands for the part."""
    found: Sequence[_Read | bytes | SkippedPart]
    try:
        found = read_safely(lambda: list(messages))
    except InternalReadError as error:
        found = [make_placeholder(part, error, serial).placeholder]
    yield from found


def collect_parts(parts: Iterable[BodyItem], budget: WorkBudget) -> Iterator[bytes | SkippedPart]:
    """All parts' messages. Raises RejectedEvent, the first's, if none can be read; BodyTooLarge."""
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
        raise field_error("wrong_type", at, "a list is wanted")
    for number, item in enumerate(value):
        yield f"{at}/{number}", item


def read_counts(value: Any, name: str, count: str) -> Sequence[DevicePair]:
    """Name and count of each object of a list; a value of another shape has no name."""
    if not isinstance(value, list):
        return [(None, value)]
    if len(value) > _MAX_COUNTS:
        return [(None, f"{len(value):,} counts")]
    objects = (item if isinstance(item, dict) else {count: item} for item in value)
    return [(item.get(name), item.get(count)) for item in objects]


def require_object(value: Any, at: str) -> JsonObject:
    """The value, if it is an object. Raises RejectedEvent wrong_type if it is not."""
    if not isinstance(value, dict):
        raise field_error("wrong_type", at, "an object is wanted")
    return value


def require_value(fields: JsonObject, name: str, at: str) -> Any:
    """The value of a field that the reader cannot do without. Raises RejectedEvent."""
    if fields.get(name) is None:
        place = f"{at}/{name}"
        raise field_error("missing_field", place, "the field is missing")
    return fields[name]
