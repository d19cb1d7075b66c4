"""Records that every sender of messages stores in its state topic."""

from msgspec import Struct


class UndeliveredMessages(Struct, frozen=True):
    """The messages of a channel that have not arrived, in one partition.

    `waiting_since`: the first due time of the oldest waiting message, None if none waits; `dead`:
    the number of stored messages that were given up; `blocked`: the number of messages that wait
    for a repair of secrets, address or permissions.
    """

    waiting_since: int | None = None
    dead: int = 0
    blocked: int = 0


class TickTime(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="is",
    tag="tick",
):
    """How far time had come: number and instant of the newest tick.

    `undelivered`: by channel what had not arrived then.
    """

    n: int
    at: int
    undelivered: dict[str, UndeliveredMessages] = {}

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return "tick"


class DroppedRecord(Struct, frozen=True):
    """A record to delete, by its key in the topic."""

    topic_key: bytes
