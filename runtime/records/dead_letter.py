"""The topic `dead-letters`: records that are not counted, why, and where they lie.

Every component that does not count a record writes and reads its letter with this module. The shape
is schemas/topics/dead-letters.schema.json.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from confluent_kafka import KafkaException, Message

from runtime.kafka.reader import RecordPlace, read_newest, read_to_end
from schemas import loader
from tally.config.keys import hmac_digest
from tally.config.settings import Settings
from tally.errors import StackError, TallyError
from tally.people.redact import redact_message, redact_text
from tally.time.instants import format_utc, from_millis

TOPIC = "dead-letters"
CONFLICT = "conflict"
# Redaction can lengthen a message; the part that is cut off is still in its original topic.
MAX_BYTES = 1_000_000
_MAX_KEY_BYTES = 1_000
_MAX_TEXT = 500
_NUMBERS = ("partition", "offset", "attempts")
_HEADERS = ("reason", "field", "message", "topic", *_NUMBERS, "first_seen", "sha256")


class UncountedRecord(NamedTuple):
    """A record as it lies in its topic, not redacted yet."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes


@dataclass(frozen=True)
class Cause:
    """Why a record is not counted: one of the reasons of schemas/topics.yaml, and a sentence.

    `field` points to the faulty field; first_seen is the instant (UTC, as text) of the first of the
    attempts.
    """

    reason: str
    message: str
    first_seen: str
    field: str = ""
    attempts: int = 1


class EncodedLetter(NamedTuple):
    """A dead letter in the form in which it is sent."""

    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]


def encode_letter(record: UncountedRecord, cause: Cause, digest_key: bytes) -> EncodedLetter:
    """The letter of a record: its redacted key and bytes, and the headers.

    Its identity is topic:partition:offset: a duplicate is the same letter.
    """
    headers = {
        "reason": cause.reason,
        "field": redact_excerpt(cause.field),
        "message": redact_excerpt(cause.message),
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "attempts": str(cause.attempts),
        "first_seen": cause.first_seen,
        # Keyed: a plain digest would reveal redacted loyalty ids to a trial of all of them.
        "sha256": hmac_digest(digest_key, record.value),
    }
    return EncodedLetter(
        # Redacted before it is cut: half a card number has no check digit to recognise it by.
        None if record.key is None else redact_message(record.key)[:_MAX_KEY_BYTES],
        redact_message(record.value)[:MAX_BYTES],
        # A text from JSON may hold half a surrogate pair, which UTF-8 cannot encode.
        [(name, text.encode("utf-8", "backslashreplace")) for name, text in headers.items()],
    )


def redact_excerpt(text: str, most: int = _MAX_TEXT) -> str:
    """The text as a letter shows it: redacted, and cut to at most `most` characters.

    >>> redact_excerpt("gift for ann@example.org", most=12)
    'gift for [re'
    """
    return redact_text(text)[:most]


@dataclass(frozen=True)
class DeadLetter:
    """One dead letter.

    `at` is the time (UTC) at which it was written; `value` is the redacted original as text.
    """

    id: str
    reason: str
    field: str
    message: str
    attempts: int
    first_seen: str
    at: str
    sha256: str
    key: str | None
    value: str

    @property
    def place(self) -> RecordPlace:
        """Topic, partition and offset of the record that is not counted."""
        topic, partition, offset = self.id.rsplit(":", 2)
        return topic, int(partition), int(offset)


def read_letters(settings: Settings) -> Iterator[DeadLetter]:
    """Every dead letter that Kafka holds, duplicates included, in the order of each partition.

    Raises TallyError for a record of the topic that is no dead letter; KafkaException and
    StackError as read_to_end().
    """
    return map(parse_letter, read_to_end(settings, [TOPIC]))


def read_newest_letters(settings: Settings, most: int) -> dict[str, DeadLetter]:
    """The newest dead letters by id, at most `most` of each partition.

    Raises StackError where they cannot be read, TallyError as read_letters().
    """
    try:
        found = map(parse_letter, read_newest(settings, TOPIC, most))
        return {letter.id: letter for letter in sorted(found, key=attrgetter("at"))}
    except KafkaException as error:
        raise StackError(f"dead letters cannot be read: {error}") from error


def parse_letter(message: Message) -> DeadLetter:
    """Parse the record as a letter. Raises TallyError for a record that is no dead letter."""
    headers = {
        name: value.decode("utf-8", "replace")
        for name, value in dict(message.headers() or ()).items()
        if isinstance(value, bytes)
    }
    # Any client may write to a topic: a foreign record is named, and crashes no reader.
    if wrong := [name for name in _HEADERS if not _is_valid_header(name, headers)]:
        place = f"{TOPIC}:{message.partition()}:{message.offset()}"
        raise TallyError(f"{place}: no dead letter, for its headers lack {', '.join(wrong)}")
    key = message.key()
    same = {name: headers[name] for name in ("reason", "field", "message", "first_seen", "sha256")}
    return DeadLetter(
        id=f"{headers['topic']}:{headers['partition']}:{headers['offset']}",
        attempts=int(headers["attempts"]),
        at=format_utc(from_millis(message.timestamp()[1])),
        key=None if key is None else _text(key),
        value=_text(message.value() or b""),
        **same,
    )


def _is_valid_header(name: str, headers: Mapping[str, str]) -> bool:
    return name in headers and (name not in _NUMBERS or headers[name].isdecimal())


def _text(content: bytes | str) -> str:
    return content.decode("utf-8", "backslashreplace") if isinstance(content, bytes) else content


class RefusedEvents(NamedTuple):
    """The events of a store that do not count for one reason: count, example and fix.

    `field` is the faulty field of the example, `last` the example's instant or UTC day (ISO 8601).
    """

    store: str
    reason: str
    field: str
    events: int
    last: str
    example: str
    message: str
    fix: str


def group_letters(letters: Iterable[DeadLetter]) -> Iterator[RefusedEvents]:
    """Dead letters by store, reason and field; the message is that of the newest of each."""
    by_cause: defaultdict[tuple[str, str, str], list[DeadLetter]] = defaultdict(list)
    for letter in letters:
        by_cause[letter.key or "", letter.reason, letter.field].append(letter)
    # A letter with a reason unknown to this version has no fix.
    fixes = loader.dead_letter_fixes()
    for (store, reason, field), refused in by_cause.items():
        last = max(refused, key=attrgetter("at"))
        example = (last.at, last.id, last.message, fixes.get(reason, ""))
        yield RefusedEvents(store, reason, field, len(refused), *example)
