"""The place of a subscriber in the topic: the `id:` of an event, as a value.

It has the next offset of every partition, not only that of its own event: two partitions have no
order between them, so the event's own offset would not say which events of the other partitions
came before it.

    partition 0, partition 1   | a0, b0, b1
    sent so far                | a0, b0
    id of b0                   | next: 1, 1
    resumed at that id         | b1
    resumed at "partition 1, offset 0" alone: a0 again, or, at the ends of the others, never
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from runtime.kafka.topics import Bounds
from tally.errors import BadQuery

FIELD = "Last-Event-ID"
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

    def has_passed(self, partition: int, offset: int) -> bool:
        """Whether the event of this offset lies before the place."""
        return offset < self.offsets[partition]


def position_at(topic_id: str, offsets: Sequence[int]) -> StreamPosition:
    """The place at these offsets of the topic that has this id now."""
    return StreamPosition(topic_id[:_PREFIX], tuple(offsets))


def encode_position(place: StreamPosition) -> str:
    """The place as an event's id: base64url without padding."""
    plain = ".".join([place.topic_id, *map(str, place.offsets)])
    return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")


def parse_position(text: str) -> StreamPosition:
    """The place of an id. Raises BadQuery for a text that is not an id."""
    try:
        # validate: otherwise foreign characters are skipped, and many texts give the same place.
        padded = text + "=" * (-len(text) % 4)
        plain = base64.b64decode(padded, altchars=b"-_", validate=True)
        found = _TEXT.match(plain.decode("ascii")) if len(text) <= _MAX_CHARACTERS else None
    except (binascii.Error, ValueError) as error:
        raise _bad_position(text) from error
    if found is None:
        raise _bad_position(text)
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


def _bad_position(text: str) -> BadQuery:
    text_error = f"{FIELD}: {text[:40]!r} is no id of this stream; leave it out to begin now"
    return BadQuery(FIELD, text_error)
