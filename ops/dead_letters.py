"""Dead letters as the topic holds them, and the way back of an original into its raw topic."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from runtime.connect import kafka_consumer, kafka_producer
from schemas import loader
from tally.errors import TallyError
from tally.instants import from_millis, instant_text
from tally.keys import digest_key, keyed_digest
from tally.settings import Settings

TOPIC = "dead-letters"
_SECONDS = 30.0
_BATCH = 5_000


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

    def as_json(self) -> dict[str, Any]:
        """Its fields by name."""
        return asdict(self)


@dataclass(frozen=True)
class Wanted:
    """Which dead letters; an empty text or None is no condition."""

    reason: str = ""
    topic: str = ""
    since: datetime | None = None

    def matches(self, letter: DeadLetter) -> bool:
        """Whether the letter is wanted."""
        topic = letter.id.rsplit(":", 2)[0]
        recent = self.since is None or letter.at >= instant_text(self.since)
        return recent and self.reason in ("", letter.reason) and self.topic in ("", topic)


def dead_letters(settings: Settings) -> dict[str, DeadLetter]:
    """Every dead letter by id, in order of arrival; a repeat has replaced the one before."""
    letters: dict[str, DeadLetter] = {}
    for message in sorted(_all_messages(settings), key=lambda message: message.timestamp()[1]):
        letter = _letter(message)
        letters[letter.id] = letter
    return letters


def dead_letter(settings: Settings, letter_id: str) -> DeadLetter:
    """The dead letter of this id. Raises TallyError when there is none."""
    try:
        return dead_letters(settings)[letter_id]
    except KeyError:
        raise TallyError(
            f"no dead letter {letter_id}; `tally dead-letters list` shows those there are"
        ) from None


def replay(settings: Settings, letter: DeadLetter, fixed: bytes | None) -> str:
    """Send the original (or its corrected content) to its raw topic again.

    Returns topic:partition:offset of the new message.

    Raises TallyError when the original is gone, or is a canonical record, which only the normaliser
    may write.
    """
    topic = letter.id.rsplit(":", 2)[0]
    key: str | bytes | None = letter.key
    if fixed is None:
        original = _original(settings, letter)
        fixed, key = original.value() or b"", original.key()
    headers = [
        ("attempts", str(letter.attempts).encode()),
        ("first_seen", letter.first_seen.encode()),
    ]
    return _send(settings, loader.topics()[topic].get("raw", topic), key, fixed, headers)


def _original(settings: Settings, letter: DeadLetter) -> Message:
    topic, partition, offset = letter.id.rsplit(":", 2)
    if loader.topics()[topic]["kind"] != "raw":
        raise TallyError(
            f"{letter.id}: a {letter.reason} lies in a canonical topic;"
            " give its corrected message with --fix FILE"
        )
    consumer = kafka_consumer(settings, f"dead-letters-{uuid4()}", {"auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(topic, int(partition), int(offset))])
        message = consumer.poll(_SECONDS)
    finally:
        consumer.close()
    if message is None or message.error() or not _is_original(settings, letter, message):
        kept = f"kept {settings.raw_retention_seconds} s"
        raise TallyError(
            f"{letter.id}: the original is no longer in Kafka ({kept});"
            " give its corrected content with --fix FILE"
        )
    return message


def _is_original(settings: Settings, letter: DeadLetter, message: Message) -> bool:
    return keyed_digest(digest_key(settings.home), message.value() or b"") == letter.sha256


def _send(
    settings: Settings, topic: str, key: Any, value: bytes, headers: list[tuple[str, bytes]]
) -> str:
    stored: list[str] = []

    def keep(error: KafkaError | None, message: Message) -> None:
        if error is None:
            stored.append(f"{message.topic()}:{message.partition()}:{message.offset()}")

    producer = kafka_producer(settings)
    producer.produce(topic, value, key, headers=list(headers), on_delivery=keep)
    if producer.flush(_SECONDS) or not stored:
        raise TallyError(
            f"Kafka at {settings.kafka} did not take the message;"
            " `tally status` shows whether it runs"
        )
    return stored[0]


def _letter(message: Message) -> DeadLetter:
    received = dict(message.headers() or ())
    headers = {
        name: value.decode("utf-8", "replace")
        for name, value in received.items()
        if isinstance(value, bytes)
    }
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


def _text(content: bytes | str) -> str:
    return content.decode("utf-8", "backslashreplace") if isinstance(content, bytes) else content


def _all_messages(settings: Settings) -> Iterator[Message]:
    consumer = kafka_consumer(settings, f"dead-letters-{uuid4()}", {"enable.partition.eof": True})
    try:
        partitions = _partitions(consumer)
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in partitions])
        yield from _until_end(consumer, len(partitions))
    finally:
        consumer.close()


def _partitions(consumer: Consumer) -> list[int]:
    metadata = consumer.list_topics(TOPIC, timeout=_SECONDS).topics[TOPIC]
    if metadata.error is not None:
        raise TallyError(f"topic {TOPIC}: {metadata.error.str()}; start the stack with `tally up`")
    return sorted(metadata.partitions)


def _until_end(consumer: Consumer, partitions: int) -> Iterator[Message]:
    ended = 0
    while ended < partitions:
        for message in consumer.consume(_BATCH, timeout=0.2):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
            else:
                raise TallyError(
                    f"topic {TOPIC}: {error.str()}; `tally doctor` looks for the cause"
                )
