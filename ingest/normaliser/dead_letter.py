"""Makes the dead letter of a message that breaks its contract; it records the attempt."""

from runtime.processor.commit.record import Input, Output
from runtime.records.dead_letter import TOPIC, Cause, UncountedRecord, encode_letter
from tally.errors import BadInstant, RejectedEvent
from tally.time.instants import format_utc, from_millis, parse_instant


def dead_letter(record: Input, error: RejectedEvent, digest_key: bytes) -> Output:
    """The dead letter of the message, with the error's reason."""
    before = dict(record.headers)
    attempts = before.get("attempts", b"")
    cause = Cause(
        error.reason,
        error.message,
        field=error.field,
        # The headers of a replayed dead letter say which attempt it is, and when the first was.
        attempts=int(attempts) + 1 if attempts.isdigit() and len(attempts) < 10 else 1,
        first_seen=_first_seen(before.get("first_seen"), record),
    )
    place = record.topic, record.partition, record.offset
    message = UncountedRecord(*place, record.key, record.value or b"")
    letter = encode_letter(message, cause, digest_key)
    return Output(TOPIC, letter.key, letter.value, headers=letter.headers)


def _first_seen(before: bytes | None, record: Input) -> str:
    try:
        # Any program may set this header, so only a valid instant is taken from it.
        return format_utc(
            parse_instant((before or b"")[:40].decode("ascii", "replace"), "first_seen")
        )
    except BadInstant:
        return format_utc(from_millis(record.timestamp_ms))
