"""Alerts in memory: what the projector would have filed, and a topic that is fed by hand."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import date

from alerting.alert.current_state import current_states, episode_ids, open_alert
from alerting.queries.alerts import raise_instant
from alerting.stream.feed import RecentRecords, StreamBatch
from alerting.stream.place import StreamPosition, clamp_position, position_at
from runtime.kafka.tail import TopicRecord
from runtime.kafka.topics import Bounds
from serving.storage.views import AlertReader
from tally.alerts.message import Alert, encode_alert
from tally.errors import ViewsUnreachable


class MemoryAlerts(AlertReader):
    """A reader over messages in the order in which they were told."""

    def __init__(self, check: Callable[[], Awaitable[None]]) -> None:
        self.told: list[Alert] = []
        self._check = check

    async def read_raised(self, store_ids: Sequence[str], day: date) -> list[Alert]:
        await self._check()
        last = current_states(self.told).values()
        return [
            one for one in last if one.store_id in store_ids and raise_instant(one).date() == day
        ]

    async def read_open(self, store_ids: Sequence[str]) -> list[Alert]:
        await self._check()
        ids = {one.alert_id for one in self.told if one.store_id in store_ids}
        found = [open_alert(one, await self.read_life(one)) for one in sorted(ids)]
        return [one for one in found if one is not None]

    async def read_life(self, alert_id: str) -> list[Alert]:
        await self._check()
        return [one for one in self.told if alert_id in episode_ids(one)]


class MemoryFeed:
    """A Feed over a topic in memory; `most` records are held as RecentRecords does, the rest is
    read again. `is_away` makes it fail as an unreachable broker does."""

    def __init__(self, partitions: int = 2, most: int = 1_000) -> None:
        self.topic_id, self.is_away, self.has_ended = "topic-00", False, False
        self._most = most
        self.logs: dict[int, list[bytes | None]] = defaultdict(list)
        self.earliest = dict.fromkeys(range(partitions), 0)
        self.recent = RecentRecords(position_at(self.topic_id, [0] * partitions), most)
        self.change_event = asyncio.Event()

    def append(self, partition: int, value: bytes | None) -> None:
        """A record, or None for what no reader of committed records is given."""
        self.logs[partition].append(value)

    def read(self) -> None:
        """What has come since the last time is known to all."""
        place = self.recent.position
        ends = {number: len(self.logs[number]) for number in self.earliest}
        self.recent.add(self._between(place), ends)
        self.change_event, before = asyncio.Event(), self.change_event
        before.set()

    def tell(self, partition: int, alert: Alert) -> None:
        """An alert that comes, and is known at once."""
        self.append(partition, encode_alert(alert))
        self.read()

    def anew(self, topic_id: str) -> None:
        """The topic is deleted and made again, with as many partitions."""
        self.topic_id, self.logs = topic_id, defaultdict(list)
        self.earliest = dict.fromkeys(self.earliest, 0)
        self.recent = RecentRecords(position_at(topic_id, [0] * len(self.earliest)), self._most)

    def end(self) -> None:
        """Nobody reads any more."""
        self.has_ended = True
        self.change_event.set()

    async def current_position(self) -> StreamPosition:
        if self.is_away:
            raise ViewsUnreachable("planted")
        return self.recent.position

    async def read_after(self, place: StreamPosition) -> StreamBatch:
        if self.recent.covers(place):
            return StreamBatch(self.recent.records_after(place), self.recent.position)
        bounds = [Bounds(at, len(self.logs[number])) for number, at in self.earliest.items()]
        going_on = clamp_position(place, self.topic_id, bounds)
        if going_on != place:
            return StreamBatch((), going_on, is_gap=True)
        return StreamBatch(
            self._between(place), place.advance_to({n: b.end for n, b in enumerate(bounds)})
        )

    def _between(self, place: StreamPosition) -> list[TopicRecord]:
        return [
            TopicRecord(number, offset, value)
            for number in self.earliest
            for offset, value in enumerate(self.logs[number])
            if value is not None and offset >= place.offsets[number]
        ]
