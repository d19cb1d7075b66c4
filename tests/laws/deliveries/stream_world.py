"""Two partitions of alerts, and one client whose connection breaks; the product listens."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

from alerting.stream.feed import FeedEvent, listen
from alerting.stream.place import StreamPosition, encode_position, parse_position
from tests.support.alerts.alert_memory import MemoryFeed

PARTITIONS = (0, 1)
ACTIONS = ("append", "skip", "read", "take", "break", "delete", "anew")
Step = tuple[str, int]
# From the places ahead of and behind the last event that the client has, and the feed's own.
Resume = Callable[[StreamPosition, StreamPosition, StreamPosition], StreamPosition]


class Broken(AssertionError):
    """A client that has not each event once, or was not told of what it lacks."""


class Gap(NamedTuple):
    """What a client was told to be gone."""

    lost: StreamPosition
    place: StreamPosition


def resumed_by_id(_: StreamPosition, last: StreamPosition, here: StreamPosition) -> StreamPosition:
    """As the product does: by the text of the last id."""
    return parse_position(encode_position(last))


class Client:
    """One client, and what it was told."""

    def __init__(self, feed: MemoryFeed, resume: Resume) -> None:
        self._feed, self._resume = feed, resume
        self.have: list[bytes] = []
        self.gaps: list[Gap] = []
        self.before = self.last = feed.recent.position
        self._heard: AsyncIterator[FeedEvent] = self._connected(self.last)

    async def take(self) -> FeedEvent:
        """The next thing that is sent, which arrives."""
        one = await anext(self._heard)
        if one.message is not None:
            self.have.append(one.message)
            self.before = self.last
        if one.lost_position is not None:
            self.gaps.append(Gap(one.lost_position, one.position))
        self.last = one.position
        return one

    async def break_off(self, under_way: bool) -> None:
        """The connection breaks, perhaps with something under way that never arrives."""
        if under_way:
            await anext(self._heard)
        self._heard = self._connected(
            self._resume(self.before, self.last, self._feed.recent.position)
        )

    def _connected(self, place: StreamPosition) -> AsyncIterator[FeedEvent]:
        # Without patience there is always something: the place, if no event.
        return listen(self._feed, place, is_wanted, place_seconds=0.0)


def is_wanted(message: bytes) -> bool:
    """The filter of the client: one message of five does not pass."""
    return int(message.rsplit(b":", 1)[1]) % 5 != 4


def play(steps: Sequence[Step], resume: Resume = resumed_by_id) -> Counter[str]:
    """What has happened, counted; raises Broken where the client lacks an event or has it twice."""
    return asyncio.run(_play(steps, resume))


async def _play(steps: Sequence[Step], resume: Resume) -> Counter[str]:
    feed, happened = MemoryFeed(len(PARTITIONS), most=3), Counter[str]()
    client, sent = Client(feed, resume), list[tuple[str, int, int, bytes]]()
    for action, at in steps:
        happened[action] += 1
        partition = at % 2
        if action == "append":
            offset = len(feed.logs[partition])
            message = f"{feed.topic_id}:{partition}:{offset}".encode()
            feed.append(partition, message)
            sent.append((feed.topic_id, partition, offset, message))
        elif action == "skip":
            feed.append(partition, None)
        elif action == "read":
            feed.read()
        elif action == "take":
            one = await client.take()
            happened["events"] += one.message is not None
            happened["gaps"] += one.lost_position is not None
        elif action == "break":
            await client.break_off(under_way=at % 4 > 1)
        elif action == "delete":
            feed.earliest[partition] = len(feed.logs[partition])
        else:
            feed.anew(f"topic-{happened[action]:02}")
    feed.read()
    await client.break_off(under_way=False)
    while client.last != feed.recent.position:
        await client.take()
    _check(client, [one for one in sent if is_wanted(one[3])])
    return happened


def _check(client: Client, sent: Sequence[tuple[str, int, int, bytes]]) -> None:
    times = Counter(client.have)
    if twice := [one for one, n in times.items() if n > 1]:
        raise Broken(f"told twice: {twice}")
    for topic_id, partition, offset, message in sent:
        # Topics are in the order of their names: one that came and went within a gap is in it.
        covered = any(
            _at(gap.lost, partition) <= (topic_id, offset) < _at(gap.place, partition)
            for gap in client.gaps
        )
        if not times[message] and not covered:
            raise Broken(f"never told: {message!r}")
    for partition in PARTITIONS:
        own = [one for one in client.have if one.split(b":")[1] == b"%d" % partition]
        place = {message: number for number, (*_, message) in enumerate(sent)}
        if own != sorted(own, key=place.__getitem__):
            raise Broken(f"out of order: {own}")


def _at(place: StreamPosition, partition: int) -> tuple[str, int]:
    return place.topic_id, place.offsets[partition]
