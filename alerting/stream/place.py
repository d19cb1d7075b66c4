"""The place of a subscriber in the topic, and the blocks of an event stream.

The blocks are as WHATWG HTML has them for server-sent events, and the place is the `id:` of an
event. It has the next offset of every partition, not only that of its own event: two partitions
have no order between them, so the event's own offset would not say which events of the other
partitions came before it.

    partition 0, partition 1   | a0, b0, b1
    sent so far                | a0, b0
    id of b0                   | next: 1, 1
    resumed at that id         | b1
    resumed at "partition 1, offset 0" alone: a0 again, or, at the ends of the others, never
"""

import base64
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from runtime.kafka.topics import Bounds
from tally.errors import BadQuery

FIELD, MEDIA_TYPE = "Last-Event-ID", "text/event-stream"
# How long a client waits after a broken connection before it reconnects.
RETRY_BLOCK = b"retry: 3000\n\n"
# This many characters of a topic's id distinguish it from any other topic of that name.
_PREFIX = 8
# Topic ids are base64 in any of its alphabets.
_TEXT = re.compile(r"([A-Za-z0-9+/_-]{1,8})((?:\.\d{1,18}){1,1000})\Z", re.ASCII)
_MAX_CHARACTERS = 4_000


class StreamPosition(Struct, frozen=True):
    """A place in one topic: prefix of its id, and the next offset of each partition in order."""

    topic_id: str
    offsets: tuple[int, ...]

    def after(self, partition: int, offset: int) -> "StreamPosition":
        """The place behind the event of this offset."""
        return self.advance_to({partition: offset + 1})

    def advance_to(self, until: Mapping[int, int]) -> "StreamPosition":
        """The place once all records before these offsets were processed; it never moves back."""
        numbered = enumerate(self.offsets)
        offsets = (max(at, until.get(number, 0)) for number, at in numbered)
        return StreamPosition(self.topic_id, tuple(offsets))


def position_at(topic_id: str, offsets: Sequence[int]) -> StreamPosition:
    """The place at these offsets of the topic that has this id now."""
    return StreamPosition(topic_id[:_PREFIX], tuple(offsets))


def encode_position(place: StreamPosition) -> str:
    """The place as an event's id: base64url without padding."""
    plain = ".".join([place.topic_id, *map(str, place.offsets)])
    return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")


def parse_position(text: str) -> StreamPosition:
    """The place of an id. Raises BadQuery for a text that is not an id."""
    found = None
    # A text that is no base64, or no ASCII, is a ValueError.
    with suppress(ValueError):
        # validate: otherwise foreign characters are skipped, and many texts give the same place.
        padded = text + "=" * (-len(text) % 4)
        plain = base64.b64decode(padded, altchars=b"-_", validate=True)
        found = _TEXT.match(plain.decode("ascii")) if len(text) <= _MAX_CHARACTERS else None
    if found is None:
        problem = f"{FIELD}: {text[:40]!r} is no id of this stream; leave it out to begin now"
        raise BadQuery(FIELD, problem)
    # Eighteen digits at most: more than any log has, and never beyond 64 bits.
    offsets = found[2].split(".")[1:]
    return StreamPosition(found[1], tuple(map(int, offsets)))


def clamp_position(
    place: StreamPosition, topic_id: str, bounds: Sequence[Bounds]
) -> StreamPosition:
    """The nearest place from which the topic can be read on, given its current bounds.

    The place is unchanged unless records are gone. A re-created topic is read from its begin; where
    records were deleted, reading continues behind them; where a log was truncated, at its end.
    """
    # Checked first: the offsets of another topic mean nothing here.
    if place.topic_id != topic_id[:_PREFIX] or len(place.offsets) != len(bounds):
        return position_at(topic_id, [partition.earliest for partition in bounds])
    pairs = zip(place.offsets, bounds, strict=True)
    offsets = [min(max(at, partition.earliest), partition.end) for at, partition in pairs]
    return position_at(topic_id, offsets)


def position_block(place: StreamPosition) -> bytes:
    """A block with the place alone: it moves the client's position and dispatches no event."""
    return _id(place) + b"\n"


def alert_block(place: StreamPosition, message: bytes) -> bytes:
    """The block of an alert, with the place behind it."""
    return _id(place) + _event("alert", message)


def gap_block(lost: StreamPosition, place: StreamPosition) -> bytes:
    """The block of a gap: the ids between which events are gone.

    It has no id of its own: a client that disconnects before the snapshot gets the gap again.
    """
    offsets = {"from": encode_position(lost), "to": encode_position(place)}
    return _event("gap", msgspec.json.encode(offsets))


def snapshot_block(place: StreamPosition, messages: Sequence[bytes]) -> bytes:
    """The block of the open alerts, with the place from which the stream continues."""
    # Raw, because the messages are JSON already.
    content = {"open": [msgspec.Raw(message) for message in messages]}
    return _id(place) + _event("snapshot", msgspec.json.encode(content))


def _id(place: StreamPosition) -> bytes:
    return f"id: {encode_position(place)}\n".encode()


def _event(name: str, content: bytes) -> bytes:
    # A record may have several lines, and each needs a `data:` prefix.
    lines = content.splitlines() or [b""]
    return f"event: {name}\n".encode() + b"".join(b"data: %b\n" % line for line in lines) + b"\n"
