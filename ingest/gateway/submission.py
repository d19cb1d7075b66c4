"""Splits the body of a request into lines and checks each against the contract of its topic."""

import io
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any, TypeAlias

from ingest.contract.vendor import (
    FileSplitter,
    Greeting,
    Messages,
    SkippedPart,
    VendorBody,
    make_placeholder,
    omission_message,
    read_safely,
)
from ingest.installation.arrival import Arrival
from ingest.sources.registry import Conversion, load_conversion, load_vendor_formats
from schemas import loader
from schemas.source import Source, read_json_file
from tally.errors import BodyTooLarge, InternalReadError, RejectedEvent

# The number of a line, or place of an event, from 1, and its message.
NumberedMessage: TypeAlias = tuple[int, bytes | SkippedPart]
MAX_LINES = 10_000
MAX_BYTES = 5 * 1024 * 1024
# Each store and day causes separate work downstream (rows, files, rebuilds): one request must not
# contain thousands of them.
MAX_STORES = MAX_DAYS = 64
# Rejected lines that an answer shows, and the longest text of one of their fields: the answer has
# at most 64 KiB for any body.
MAX_REPORTED = 100
_OTHERS = "parts of other kinds"
_MAX_TEXT = 250


@dataclass(frozen=True)
class Endpoint:
    """One path of the gateway: its raw topic, and the check that the normaliser makes too.

    `messages` cuts a vendor's body into messages; None where the body is messages already.
    `greeting` is what a vendor's cloud reads there first; `parts` cuts a file that is too large for
    one body. `schema` is the JSON Schema of a message.
    """

    path: str
    topic: str
    check: Conversion
    schema: Mapping[str, Any]
    messages: Messages | None = None
    greeting: Greeting | None = None
    parts: FileSplitter | None = None

    @cached_property
    def number_fields(self) -> frozenset[str]:
        """Fields whose wrong type is best said as "not a number"."""
        return frozenset(_number_fields(self.schema))

    def lines(self, body: VendorBody, is_ndjson: bool) -> Iterator[NumberedMessage]:
        """Yield the number and message of each event of a body.

        Raises BodyTooLarge, RejectedEvent.
        """
        if self.messages is None:
            return number_lines(body, is_ndjson)
        return number_messages(body, self.messages)


@cache
def endpoints() -> tuple[Endpoint, ...]:
    """The path of each source, and below it one for each vendor's format. Raises BadSource."""
    return tuple(
        endpoint for source in loader.sources().values() for endpoint in source_endpoints(source)
    )


def source_endpoints(source: Source) -> Iterator[Endpoint]:
    """The paths of one source. Raises BadSource."""
    schema = read_json_file(source, "message.schema.json")
    plain = Endpoint(source.path, source.raw_topic, load_conversion(source), schema)
    yield plain
    for name, form in load_vendor_formats(source).items():
        yield replace(plain, path=f"{source.path}/{name}", **form._asdict())


def _kinds(schema: Mapping[str, Any]) -> Sequence[str]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else kind


def _number_fields(schema: Mapping[str, Any]) -> Iterator[str]:
    """Names of the fields that take nothing but numbers, or decimals written as texts."""
    for name, field_schema in schema.get("properties", {}).items():
        alternatives = field_schema, *field_schema.get("anyOf", ())
        kinds = {kind for alternative in alternatives for kind in _kinds(alternative)}
        # A field of whole numbers or texts is an identifier; null stands for a missing value.
        if "number" in kinds or kinds - {"null"} == {"integer"}:
            yield name
        yield from _number_fields(field_schema)
        yield from _number_fields(field_schema.get("items", {}))


@dataclass
class CheckedLines:
    """The good messages of a body, and the errors of the others.

    `accepted` has (store id, original bytes); `rejected` has the line, from 1, and the error of the
    first bad messages, and `rejected_count` the number of all. `letters` are the bad messages that
    are stored all the same; `skipped` counts the parts of a vendor's body that are no events, by
    reason.
    """

    accepted: list[tuple[str, bytes]] = field(default_factory=list)
    letters: list[tuple[str, bytes]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    rejected: list[tuple[int, RejectedEvent]] = field(default_factory=list)
    rejected_count: int = 0
    number_fields: frozenset[str] = frozenset()

    def skip(self, reason: str) -> None:
        """Count one more part that is no event; an answer names only the first reasons."""
        is_named = reason in self.skipped or len(self.skipped) < MAX_REPORTED
        self.skipped[reason if is_named else _OTHERS] += 1

    def reject(self, number: int, error: RejectedEvent) -> None:
        """Count one more rejected line; the errors of the first ones are kept."""
        self.rejected_count += 1
        if self.rejected_count <= MAX_REPORTED:
            # Tracebacks would hold the decoded message in memory.
            error.__context__ = error.__cause__ = None
            self.rejected.append((number, error.with_traceback(None)))

    def outcome(self) -> dict[str, Any]:
        """The answer's fields: `accepted`, `rejected` by line, `rejected_count` and `skipped`.

        `rejected_count` is absent when all rejected lines are shown, `skipped` when it is empty.
        """
        shown = [
            {"line": line, "errors": [error_fields(error, self.number_fields)]}
            for line, error in self.rejected
        ]
        count = {"rejected_count": self.rejected_count} if self.rejected_count > len(shown) else {}
        skipped = {"skipped": dict(self.skipped)} if self.skipped else {}
        return {"accepted": len(self.accepted), "rejected": shown, **count, **skipped}


def number_messages(body: VendorBody, messages: Messages) -> Iterator[NumberedMessage]:
    """Yield the place, from 1, and the message of each event of a vendor's body.

    When reading the form itself fails, the last message is one that every contract refuses. Raises
    BodyTooLarge, RejectedEvent.
    """
    for number, message in enumerate(_read_messages(body, messages), start=1):
        # Events are counted as they come: a vendor's body of a few bytes may yield any number.
        body.budget.count_event(0 if isinstance(message, SkippedPart) else len(message))
        yield number, message


def _read_messages(body: VendorBody, messages: Messages) -> Iterator[bytes | SkippedPart]:
    try:
        iterator = iter(read_safely(lambda: messages(body)))
        while (message := read_safely(lambda: next(iterator, None))) is not None:
            yield message
    except InternalReadError as error:
        yield make_placeholder("this event and those behind it", error).placeholder


def number_lines(body: VendorBody, is_ndjson: bool) -> Iterator[tuple[int, bytes]]:
    """Yield the line number and the message of each line that is not blank.

    A body that is not NDJSON is one line. Raises BodyTooLarge.
    """
    content = body.content
    if not is_ndjson:
        return iter([(1, content)])
    # Lines are counted before they are split: five million empty ones are 250 MB of objects.
    if (lines := content.count(b"\n") + (not content.endswith(b"\n"))) > MAX_LINES:
        raise BodyTooLarge(
            f"the body has {lines:,} lines; at most {MAX_LINES:,} are taken at once,"
            " send it in parts"
        )
    numbered = enumerate(io.BytesIO(content), start=1)
    stripped = ((number, line.strip()) for number, line in numbered)
    return ((number, line) for number, line in stripped if line)


def check_lines(body: VendorBody, endpoint: Endpoint, is_ndjson: bool = False) -> CheckedLines:
    """Check each line as the normaliser will check it on arrival.

    Raises BodyTooLarge; RejectedEvent for a vendor's body that cannot be read.
    """
    result = CheckedLines(number_fields=endpoint.number_fields)
    arrival = Arrival(body.arrived_at, 0, 0)
    stores: set[str] = set()
    days: set[str] = set()
    for number, line in endpoint.lines(body, is_ndjson):
        if isinstance(line, SkippedPart):
            result.skip(line.reason)
            continue
        try:
            event = read_safely(partial(endpoint.check, line, arrival, body.rules))
        except RejectedEvent as error:
            result.reject(number, error)
            if endpoint.messages is not None:
                _add_letter(line, error, body, result)
            continue
        stores.add(event.store_id)
        days.add(event.happened_at[:10])
        _refuse_spread(stores, days)
        result.accepted.append((event.store_id, line))
    if body.budget.omitted_letters:
        result.letters.append(("", omission_message(body.budget.omitted_letters)))
    return result


def _add_letter(line: bytes, error: RejectedEvent, body: VendorBody, result: CheckedLines) -> None:
    """Keep a device's refused event as a dead letter, which can be corrected and replayed.

    A device reads no answer, and sends nothing twice.
    """
    letter: bytes | SkippedPart = line
    if isinstance(error, InternalReadError):
        # The normaliser would fail on it as well.
        letter = make_placeholder(line.decode("utf-8", "backslashreplace"), error).placeholder
    if isinstance(letter, bytes) and body.budget.admit_letter(
        error.reason, len(letter), body.rules.max_bytes
    ):
        result.letters.append(("", letter))


def _refuse_spread(stores: set[str], days: set[str]) -> None:
    if len(stores) > MAX_STORES:
        raise BodyTooLarge(
            f"the body has messages of more than {MAX_STORES} stores;"
            " send those of fewer stores at once"
        )
    if len(days) > MAX_DAYS:
        raise BodyTooLarge(
            f"the body has messages of more than {MAX_DAYS} days (UTC);"
            " send those of fewer days at once"
        )


def error_fields(error: RejectedEvent, numbers: Collection[str]) -> dict[str, str]:
    """The field, code and message of an error, as an answer shows them."""
    is_number = error.reason == "wrong_type" and error.field.rpartition("/")[2] in numbers
    code = "not_a_number" if is_number else error.reason
    return {"field": _shorten(error.field), "code": code, "message": _shorten(error.message)}


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
