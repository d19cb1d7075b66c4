"""The topic `dead-letters`: a record that is not counted, why, and where it lies.

It is written here and read here, whoever does not count the record. Its shape is
schemas/topics/dead-letters.schema.json.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from confluent_kafka import KafkaException, Message

from runtime.reading import RecordPlace, read_newest, read_to_end
from tally.errors import StackError, TallyError
from tally.instants import from_millis, instant_text
from tally.keys import keyed_digest
from tally.redact import redacted, redacted_text
from tally.settings import Settings

TOPIC = "dead-letters"
# Redaction can lengthen a message; what is cut off is still in the topic that it came from.
MOST_BYTES = 1_000_000
_MOST_KEY_BYTES = 1_000
_MOST_TEXT = 500
_NUMBERS = ("partition", "offset", "attempts")
_HEADERS = ("reason", "field", "message", "topic", *_NUMBERS, "first_seen", "sha256")


class UncountedRecord(NamedTuple):
    """A record as it lies in its topic: nothing of it is blacked out yet."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes


@dataclass(frozen=True)
class Cause:
    """Why a record is not counted: one of the reasons of schemas/topics.yaml, and in words.

    `field` points to what is wrong in it; first_seen is the instant (UTC, as text) of the first of
    so many attempts.
    """

    reason: str
    message: str
    first_seen: str
    field: str = ""
    attempts: int = 1


class WrittenLetter(NamedTuple):
    """A dead letter as it is sent."""

    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]


def written_letter(record: UncountedRecord, cause: Cause, digest_key: bytes) -> WrittenLetter:
    """Key and bytes of the record without what is personal, and the headers of its letter.

    Its identity is topic:partition:offset: a repeat is the same letter.
    """
    headers = {
        "reason": cause.reason,
        "field": shown(cause.field),
        "message": shown(cause.message),
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "attempts": str(cause.attempts),
        "first_seen": cause.first_seen,
        # Keyed, for a plain digest would tell what was blacked out to who tries all loyalty ids.
        "sha256": keyed_digest(digest_key, record.value),
    }
    return WrittenLetter(
        # Blacked out before it is cut: half a card number has no check digit to be known by.
        None if record.key is None else redacted(record.key)[:_MOST_KEY_BYTES],
        redacted(record.value)[:MOST_BYTES],
        # A text out of JSON may hold half a character, which UTF-8 does not have.
        [(name, text.encode("utf-8", "backslashreplace")) for name, text in headers.items()],
    )


def shown(text: str, most: int = _MOST_TEXT) -> str:
    """The text as a letter shows it: without what is personal, and at most so many characters.

    >>> shown("gift for ann@example.org", most=12)
    'gift for [re'
    """
    return redacted_text(text)[:most]


@dataclass(frozen=True)
class DeadLetter:
    """One dead letter, at the time (UTC) at which it became one.

    Its value is the redacted original as text.
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
    """Every dead letter that Kafka holds, repeats too; of one partition they come in its order.

    Raises TallyError for a record of the topic that is none; KafkaException and StackError as
    read_to_end().
    """
    return map(read_letter, read_to_end(settings, [TOPIC]))


def newest_letters(settings: Settings, most: int) -> dict[str, DeadLetter]:
    """The newest dead letters by id, at most so many of each partition.

    Raises StackError where they cannot be read, TallyError as read_letters().
    """
    try:
        found = map(read_letter, read_newest(settings, TOPIC, most))
        return {letter.id: letter for letter in sorted(found, key=attrgetter("at"))}
    except KafkaException as error:
        raise StackError(f"dead letters cannot be read: {error}") from error


def read_letter(message: Message) -> DeadLetter:
    """The letter that the record is. Raises TallyError for one that is none."""
    headers = {
        name: value.decode("utf-8", "replace")
        for name, value in dict(message.headers() or ()).items()
        if isinstance(value, bytes)
    }
    # Anybody may write into a topic: a stranger's record is named, and ends no reader in a
    # traceback.
    if wrong := [name for name in _HEADERS if not _is_told(name, headers)]:
        place = f"{TOPIC}:{message.partition()}:{message.offset()}"
        raise TallyError(f"{place}: no dead letter, for its headers lack {', '.join(wrong)}")
    key = message.key()
    return DeadLetter(
        id=f"{headers['topic']}:{headers['partition']}:{headers['offset']}",
        reason=headers["reason"],
        field=headers["field"],
        message=headers["message"],
        attempts=int(headers["attempts"]),
        first_seen=headers["first_seen"],
        at=instant_text(from_millis(message.timestamp()[1])),
        sha256=headers["sha256"],
        key=None if key is None else _text(key),
        value=_text(message.value() or b""),
    )


def _is_told(name: str, headers: Mapping[str, str]) -> bool:
    return name in headers and (name not in _NUMBERS or headers[name].isdecimal())


def _text(content: bytes | str) -> str:
    return content.decode("utf-8", "backslashreplace") if isinstance(content, bytes) else content
