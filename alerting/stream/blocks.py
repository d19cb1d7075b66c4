"""Encodes alerts as blocks of an event stream (WHATWG HTML, server-sent events)."""

from collections.abc import Sequence

import msgspec

from alerting.stream.place import StreamPosition, encode_position

MEDIA_TYPE = "text/event-stream"
# How long a client waits after a broken connection before it reconnects.
RETRY_BLOCK = b"retry: 3000\n\n"


def position_block(place: StreamPosition) -> bytes:
    """A block with the place alone: it moves the client's position and dispatches no event."""
    return f"id: {encode_position(place)}\n\n".encode()


def alert_block(place: StreamPosition, message: bytes) -> bytes:
    """The block of an alert, with the place behind it."""
    return _id(place) + _event("alert", message)


def gap_block(lost: StreamPosition, place: StreamPosition) -> bytes:
    """The block of a gap: the ids between which events are gone.

    It has no id of its own, so that a client that disconnects before the snapshot gets the gap
    again.
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
