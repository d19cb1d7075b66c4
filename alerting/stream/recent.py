"""The newest records of the topic, held in memory once for all listeners."""

from collections import deque
from collections.abc import Iterable, Mapping

from alerting.stream.place import StreamPosition
from runtime.kafka.tail import TopicRecord

# A record has about 1.5 kB.
MAX_RECORDS = 2_000


class RecentRecords:
    """The records read last, at most `most` of them, and the place behind them.

    Listeners have no queues here: each asks for the records behind its place, and a listener that
    falls behind the held records reads from Kafka again. So a slow client costs no memory.
    """

    def __init__(self, place: StreamPosition, most: int = MAX_RECORDS) -> None:
        self.position = place
        self._floor = place
        self._records: deque[TopicRecord] = deque()
        self._max_records = most

    def add(self, records: Iterable[TopicRecord], until: Mapping[int, int]) -> None:
        """Add new records, in order within each partition; `until`: how far each is read now."""
        self._records.extend(records)
        self.position = self.position.advance_to(until)
        while len(self._records) > self._max_records:
            gone = self._records.popleft()
            self._floor = self._floor.after(gone.partition, gone.offset)

    def covers(self, place: StreamPosition) -> bool:
        """Whether all records between the place and the last read record are held."""
        # The offsets of a re-created topic may look like those of the old one.
        if place.topic_id != self.position.topic_id:
            return False
        ends = zip(self._floor.offsets, place.offsets, self.position.offsets, strict=True)
        return all(floor <= at <= until for floor, at, until in ends)

    def records_after(self, place: StreamPosition) -> list[TopicRecord]:
        """The records that the place has not passed, in the order of arrival."""
        return [
            record
            for record in self._records
            if not place.has_passed(record.partition, record.offset)
        ]
