"""What is heard as blocks of an event stream (WHATWG HTML, server-sent events)."""

from collections.abc import Sequence

import msgspec

from serving.alerts.stream.place import StreamPlace, text_of

MEDIA_TYPE = "text/event-stream"
# How long a client whose connection broke waits before it comes again.
RETRY_BLOCK = b"retry: 3000\n\n"


def place_block(place: StreamPlace) -> bytes:
    """The place alone: it moves the client's position and dispatches nothing."""
    return f"id: {text_of(place)}\n\n".encode()


def alert_block(place: StreamPlace, message: bytes) -> bytes:
    """An alert, with the place behind it."""
    return _id(place) + _event("alert", message)


def gap_block(lost: StreamPlace, place: StreamPlace) -> bytes:
    """From where to where events are gone, as ids.

    It has no id of its own: who breaks off before the snapshot is told of the gap again.
    """
    told = {"from": text_of(lost), "to": text_of(place)}
    return _event("gap", msgspec.json.encode(told))


def snapshot_block(place: StreamPlace, messages: Sequence[bytes]) -> bytes:
    """The alerts that are open, with the place from which the stream goes on."""
    # Raw: the messages are JSON already.
    told = {"open": [msgspec.Raw(one) for one in messages]}
    return _id(place) + _event("snapshot", msgspec.json.encode(told))


def _id(place: StreamPlace) -> bytes:
    return f"id: {text_of(place)}\n".encode()


def _event(name: str, content: bytes) -> bytes:
    # Whoever wrote the record may have put it on several lines; each has to begin as one.
    lines = content.splitlines() or [b""]
    return f"event: {name}\n".encode() + b"".join(b"data: %b\n" % one for one in lines) + b"\n"
