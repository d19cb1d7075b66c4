"""The newest records of the topic, held in memory once for all listeners."""

from collections import deque
from collections.abc import Iterable, Mapping

from runtime.tail import TailedRecord
from serving.alerts.stream.place import StreamPlace

# A record has about 1.5 kB.
MOST_HELD = 2_000


class Recent:
    """The records read last, at most `most` of them, and the place behind them.

    Listeners have no queues here: each asks for the records behind its place, and a listener that
    falls behind the held records reads from Kafka again. So a slow client costs no memory.
    """

    def __init__(self, place: StreamPlace, most: int = MOST_HELD) -> None:
        self.place = place
        self._floor = place
        self._records: deque[TailedRecord] = deque()
        self._most = most

    def add(self, records: Iterable[TailedRecord], until: Mapping[int, int]) -> None:
        """Add new records, in order within each partition; `until`: how far each is read now."""
        self._records.extend(records)
        self.place = self.place.reaching(until)
        while len(self._records) > self._most:
            gone = self._records.popleft()
            self._floor = self._floor.after(gone.partition, gone.offset)

    def holds(self, place: StreamPlace) -> bool:
        """Whether all records between the place and the last read record are held."""
        # The offsets of a re-created topic may look like those of the old one.
        if place.topic_id != self.place.topic_id:
            return False
        ends = zip(self._floor.offsets, place.offsets, self.place.offsets, strict=True)
        return all(floor <= at <= until for floor, at, until in ends)

    def behind(self, place: StreamPlace) -> list[TailedRecord]:
        """The records that the place has not passed, in the order of arrival."""
        return [
            record
            for record in self._records
            if not place.has_passed(record.partition, record.offset)
        ]
