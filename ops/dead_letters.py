"""The dead letters of the topic, and the replay of an original to its raw topic."""

from dataclasses import dataclass
from datetime import datetime

from confluent_kafka import Message

from runtime.connect import kafka_producer
from runtime.kafka.producer import BlockingProducer
from runtime.kafka.reader import first_records
from runtime.records.dead_letter import DeadLetter, read_letters
from schemas import loader
from tally.config.keys import hmac_digest, load_digest_key
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.time.instants import format_utc

_SECONDS = 30.0


@dataclass(frozen=True)
class DeadLetterFilter:
    """A filter of dead letters; an empty text or None is no condition."""

    reason: str = ""
    topic: str = ""
    since: datetime | None = None

    def matches(self, letter: DeadLetter) -> bool:
        """Whether the letter matches the filter."""
        topic = letter.place[0]
        # Both texts have one format, in UTC, so they sort like the instants.
        recent = self.since is None or letter.at >= format_utc(self.since)
        return recent and self.reason in ("", letter.reason) and self.topic in ("", topic)


def dead_letters(settings: Settings) -> dict[str, DeadLetter]:
    """The dead letters by id, in order of arrival; a duplicate replaces the earlier one."""
    # Ordered by the brokers' timestamps: offsets of different partitions have no order.
    ordered = sorted(read_letters(settings), key=lambda letter: letter.at)
    return {letter.id: letter for letter in ordered}


def dead_letter(settings: Settings, letter_id: str) -> DeadLetter:
    """The dead letter with this id. Raises TallyError when there is none."""
    try:
        return dead_letters(settings)[letter_id]
    except KeyError:
        raise TallyError(
            f"no dead letter {letter_id}; `tally dead-letters list` shows those there are"
        ) from None


def replay(settings: Settings, letter: DeadLetter, fixed: bytes | None) -> str:
    """Send the original, or its corrected content, to its raw topic again.

    Returns topic:partition:offset of the new message. Raises TallyError when the original is gone,
    or is a canonical record, which only the normaliser may write.
    """
    topic = letter.place[0]
    key: str | bytes | None = letter.key
    if fixed is None:
        original = _original(settings, letter)
        fixed, key = original.value() or b"", original.key()
    stored: list[Message] = []
    sender = BlockingProducer(kafka_producer(settings), _SECONDS, stored.append)
    # No partition is named: a raw record may lie in any, the normaliser assigns a new key.
    raw = loader.topics()[topic].get("raw", topic)
    attempts, first_seen = str(letter.attempts).encode(), letter.first_seen.encode()
    headers = [("attempts", attempts), ("first_seen", first_seen)]
    sender.send(raw, fixed, key, headers=headers)
    sender.flush(f"Kafka at {settings.kafka}", "`tally status` shows whether it runs")
    [message] = stored
    return f"{message.topic()}:{message.partition()}:{message.offset()}"


def _original(settings: Settings, letter: DeadLetter) -> Message:
    if loader.topics()[letter.place[0]]["kind"] != "raw":
        raise TallyError(
            f"{letter.id}: a {letter.reason} lies in a canonical topic;"
            " give its corrected message with --fix FILE"
        )
    # With the reset policy "error" a deleted offset yields no record, not the next available one.
    options = {"auto.offset.reset": "error"}
    message = first_records(settings, [letter.place], _SECONDS, options)[letter.place]
    key = load_digest_key(settings.home)
    # After a log was truncated an offset may be reused: the digest identifies the original.
    if message is None or hmac_digest(key, message.value() or b"") != letter.sha256:
        retention = f"kept {settings.raw_retention_seconds} s"
        raise TallyError(
            f"{letter.id}: the original is no longer in Kafka ({retention});"
            " give its corrected content with --fix FILE"
        )
    return message
