"""Splits the body of a request, and checks each line against the contract of its topic."""

import asyncio
import io
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import chain
from threading import Thread
from typing import Any, TypeAlias

from ingest.contract import vendor
from ingest.contract.vendor import FileSplitter, Greeting, Messages, SkippedPart, VendorBody
from ingest.installation.arrival import Arrival
from ingest.sources.registry import Conversion, load_conversion, load_vendor_formats
from runtime.process.job import exit_failed
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
# The size of a till's receipt; a larger body would block the event loop for the other senders.
_SMALL_BYTES = 16 * 1024
# No body takes two seconds: after ten, no sender of a larger body gets an answer from this process.
_READY_SECONDS = 10.0
MAX_SECONDS = 60
_POLL_SECONDS = 1.0
_OTHERS = "parts of other kinds"
_MAX_TEXT = 250


@dataclass(frozen=True)
class Endpoint:
    """One path of the gateway: its raw topic, and the check that the normaliser makes too.

    `schema` is the JSON Schema of a message; the functions are those of VendorFormat, of which
    `messages` is None where the body is messages already.
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
        """The number and message of each event of a body. Raises BodyTooLarge, RejectedEvent."""
        if self.messages is None:
            return _number_lines(body.content, is_ndjson)
        return _number_messages(body, self.messages)


@cache
def endpoints() -> tuple[Endpoint, ...]:
    """The path of each source, and below it one for each vendor's format. Raises BadSource."""
    return tuple(chain.from_iterable(map(source_endpoints, loader.sources().values())))


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

    `accepted` has (store id, original bytes); `rejected` the line, from 1, and error of the first
    bad messages; `letters` those that are stored all the same; `skipped` counts the parts of a
    vendor's body that are no events, by reason.
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
        """The answer's fields; `rejected_count` and `skipped` only where they say more."""
        shown = [
            {"line": line, "errors": [_error_fields(error, self.number_fields)]}
            for line, error in self.rejected
        ]
        count = {"rejected_count": self.rejected_count} if self.rejected_count > len(shown) else {}
        skipped = {"skipped": dict(self.skipped)} if self.skipped else {}
        return {"accepted": len(self.accepted), "rejected": shown, **count, **skipped}


def _number_messages(body: VendorBody, messages: Messages) -> Iterator[NumberedMessage]:
    for number, message in enumerate(_read_messages(body, messages), start=1):
        # Events are counted as they come: a vendor's body of a few bytes may yield any number.
        body.budget.count_event(0 if isinstance(message, SkippedPart) else len(message))
        yield number, message


def _read_messages(body: VendorBody, messages: Messages) -> Iterator[bytes | SkippedPart]:
    try:
        iterator = iter(vendor.read_safely(lambda: messages(body)))
        while (message := vendor.read_safely(lambda: next(iterator, None))) is not None:
            yield message
    # The last message is then one that every contract refuses.
    except InternalReadError as error:
        yield vendor.make_placeholder("this event and those behind it", error).placeholder


def _number_lines(content: bytes, is_ndjson: bool) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank; a body that is not NDJSON is one line."""
    if not is_ndjson:
        return iter([(1, content)])
    # Lines are counted before they are split: five million empty ones are 250 MB of objects.
    if (lines := content.count(b"\n") + (not content.endswith(b"\n"))) > MAX_LINES:
        most = f"at most {MAX_LINES:,} are taken at once, send it in parts"
        raise BodyTooLarge(f"the body has {lines:,} lines; {most}")
    numbered = enumerate(io.BytesIO(content), start=1)
    stripped = ((number, line.strip()) for number, line in numbered)
    return ((number, line) for number, line in stripped if line)


def check_lines(body: VendorBody, endpoint: Endpoint, is_ndjson: bool = False) -> CheckedLines:
    """Check each line as the normaliser will. Raises BodyTooLarge, RejectedEvent for the body."""
    result = CheckedLines(number_fields=endpoint.number_fields)
    arrival = Arrival(body.arrived_at, 0, 0)
    stores: set[str] = set()
    days: set[str] = set()
    for number, line in endpoint.lines(body, is_ndjson):
        if isinstance(line, SkippedPart):
            result.skip(line.reason)
            continue
        try:
            event = vendor.read_safely(partial(endpoint.check, line, arrival, body.rules))
        except RejectedEvent as error:
            result.reject(number, error)
            if endpoint.messages is not None:
                _add_letter(line, error, body, result)
            continue
        stores.add(event.store_id)
        days.add(event.happened_at[:10])
        if len(stores) > MAX_STORES or len(days) > MAX_DAYS:
            raise _spread_error(len(stores))
        result.accepted.append((event.store_id, line))
    if body.budget.omitted_letters:
        result.letters.append(("", vendor.omission_message(body.budget.omitted_letters)))
    return result


def _add_letter(line: bytes, error: RejectedEvent, body: VendorBody, result: CheckedLines) -> None:
    # A device reads no answer, and sends nothing twice; a dead letter can be replayed.
    letter: bytes | SkippedPart = line
    if isinstance(error, InternalReadError):
        # The normaliser would fail on it as well.
        text = line.decode("utf-8", "backslashreplace")
        letter = vendor.make_placeholder(text, error).placeholder
    most, admit = body.rules.max_bytes, body.budget.admit_letter
    if isinstance(letter, bytes) and admit(error.reason, len(letter), most):
        result.letters.append(("", letter))


def _spread_error(stores: int) -> BodyTooLarge:
    most, fewer = f"{MAX_DAYS} days (UTC)", "days"
    if stores > MAX_STORES:
        most, fewer = f"{MAX_STORES} stores", "stores"
    fix = f"send those of fewer {fewer} at once"
    return BodyTooLarge(f"the body has messages of more than {most}; {fix}")


def _error_fields(error: RejectedEvent, numbers: Collection[str]) -> dict[str, str]:
    is_number = error.reason == "wrong_type" and error.field.rpartition("/")[2] in numbers
    code = "not_a_number" if is_number else error.reason
    return {"field": _shorten(error.field), "code": code, "message": _shorten(error.message)}


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


class BodyChecker:
    """Checks bodies in one thread: a second would take the interpreter from the event loop."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "checks")
        self._count = 0
        self._started_at: float | None = None

    async def check(self, body: VendorBody, endpoint: Endpoint, is_ndjson: bool) -> CheckedLines:
        """Check each line of a body; raises as check_lines() does."""
        # The cost of a vendor's body depends on its parts and not on its size.
        is_small = len(body.content) <= _SMALL_BYTES and not is_ndjson
        if is_small and endpoint.messages is None:
            return check_lines(body, endpoint)
        run = partial(self._run_check, body, endpoint, is_ndjson)
        return await asyncio.get_running_loop().run_in_executor(self._executor, run)

    @property
    def age_seconds(self) -> float:
        """Seconds for which the current check has run; 0 while there is none."""
        begun_at = self._started_at
        return 0.0 if begun_at is None else time.monotonic() - begun_at

    def readiness(self) -> dict[str, object]:
        """Whether the next body would be checked soon, and a line about it."""
        age = self.age_seconds
        return {
            "ok": age < _READY_SECONDS,
            "detail": f"the check under way has run for {age:.1f} s" if age else "none under way",
        }

    def start_watchdog(
        self, most_looks: int = MAX_SECONDS, look_seconds: float = _POLL_SECONDS
    ) -> None:
        """End the process if `most_looks` in a row, each `look_seconds` on, see the same check."""
        limits = (most_looks, look_seconds)
        Thread(target=self._end_when_hung, args=limits, name="check-watch", daemon=True).start()

    def close(self) -> None:
        """Start no further check."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _run_check(self, body: VendorBody, endpoint: Endpoint, is_ndjson: bool) -> CheckedLines:
        self._count += 1
        self._started_at = time.monotonic()
        try:
            return check_lines(body, endpoint, is_ndjson)
        finally:
            self._started_at = None

    def _end_when_hung(self, most_looks: int, look_seconds: float) -> None:
        # Looks are counted, not seconds: after a freeze of the whole process the check runs first.
        count, looks = 0, 0
        while looks < most_looks:
            time.sleep(look_seconds)
            is_same = self._started_at is not None and count == self._count
            looks, count = looks + 1 if is_same else 0, self._count
        # The process ends at once: the thread that hangs cannot be asked to close anything.
        seconds = most_looks * look_seconds
        exit_failed("gateway", f"one body is checked for {seconds:.0f} s; start the gateway again")
