"""What becomes of a message that breaks its contract.

A dead letter that names it and can be stored safely.
"""

from runtime.processor.record import Input, Output
from tally.errors import BadInstant, RejectedEvent
from tally.instants import from_millis, instant_text, parse_instant
from tally.keys import keyed_digest
from tally.redact import redacted, redacted_text

TOPIC = "dead-letters"
# Redaction can lengthen a message; what is cut off is still in the raw topic.
_MOST_BYTES = 1_000_000
_MOST_KEY_BYTES = 1_000
_MOST_TEXT = 500


def dead_letter(record: Input, error: RejectedEvent, digest_key: bytes) -> Output:
    """Key and redacted bytes of the original, and the headers of a dead letter.

    Its id is topic:partition:offset.
    """
    before = dict(record.headers)
    attempts = before.get("attempts", b"")
    headers = {
        "reason": error.reason,
        "field": redacted_text(error.field)[:_MOST_TEXT],
        "message": redacted_text(error.message)[:_MOST_TEXT],
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        # A replay of a dead letter says which attempt it is, and when the first was.
        "attempts": str(
            int(attempts) + 1 if attempts.isdigit() and len(attempts) < 10 else 1,
        ),
        "first_seen": _first_seen(before.get("first_seen"), record),
        # Keyed, for a plain digest would tell what was blacked out to who tries all loyalty ids.
        "sha256": keyed_digest(digest_key, record.value or b""),
    }
    key = None if record.key is None else redacted(record.key)[:_MOST_KEY_BYTES]
    value = redacted(record.value or b"")[:_MOST_BYTES]
    return Output(
        TOPIC,
        key,
        value,
        headers=[
            (name, text.encode("utf-8", "backslashreplace")) for name, text in headers.items()
        ],
    )


def _first_seen(before: bytes | None, record: Input) -> str:
    try:
        # Of anybody's header an instant is taken and nothing else.
        return instant_text(
            parse_instant((before or b"")[:40].decode("ascii", "replace"), "first_seen")
        )
    except BadInstant:
        return instant_text(from_millis(record.timestamp_ms))
