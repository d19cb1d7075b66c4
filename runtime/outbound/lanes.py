"""Messages that wait, by lane: of two that share a lane, the one of the lower order comes first."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar


class LanedMessage(Protocol):
    """A message that waits for the earlier ones of its lanes, of which it has at least one."""

    @property
    def key(self) -> str:
        """Its key among all messages."""

    @property
    def lane_keys(self) -> tuple[str, ...]:
        """Its lanes."""

    @property
    def order(self) -> int:
        """Its place among all messages."""

    @property
    def due_at(self) -> int:
        """When it is due, milliseconds since 1970 (UTC)."""

    @property
    def attempts(self) -> int:
        """The number of its attempts."""


Message = TypeVar("Message", bound=LanedMessage)


class Lanes(Mapping[str, Message]):
    """The waiting messages by key, in any order of arrival."""

    def __init__(self) -> None:
        self._messages: dict[str, Message] = {}
        # By lane its messages by order and key, ascending. Each lane is a list: in a dict, finding
        # the first entry takes longer the more entries before it were deleted.
        self._queues: dict[str, list[tuple[int, str]]] = {}

    def __getitem__(self, key: str) -> Message:
        return self._messages[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message: Message) -> None:
        """Add a message, in place of the one with its key."""
        known = self._messages.get(message.key)
        if known is None or (known.order, known.lane_keys) != (message.order, message.lane_keys):
            self.remove(message.key)
            for lane in message.lane_keys:
                insort(self._queues.setdefault(lane, []), (message.order, message.key))
        self._messages[message.key] = message

    def remove(self, key: str) -> None:
        """Remove the message, if it waits."""
        message = self._messages.pop(key, None)
        if message is None:
            return
        for lane in message.lane_keys:
            queue = self._queues[lane]
            del queue[bisect_left(queue, (message.order, key))]
            # There are many lanes, and few of them have a waiting message at a time.
            if not queue:
                del self._queues[lane]

    def heads(self) -> list[Message]:
        """The messages that are the first ones of all their lanes."""
        firsts = {lane: queue[0][1] for lane, queue in self._queues.items()}
        return [
            self._messages[key]
            for key in dict.fromkeys(firsts.values())
            if all(firsts[lane] == key for lane in self._messages[key].lane_keys)
        ]
