"""The newest records of the topic, held once for all who listen."""

from collections import deque
from collections.abc import Iterable, Mapping

from runtime.tail import TailedRecord
from serving.alerts.stream.place import StreamPlace

# About 1.5 kB each.
MOST_HELD = 2_000


class Recent:
    """What was read last, at most so many records, and the place behind it.

    Nobody has a queue of his own here: each asks for what lies behind his place, and who is too
    slow for what is held reads from Kafka again. So a slow client costs no memory.
    """

    def __init__(self, place: StreamPlace, most: int = MOST_HELD) -> None:
        self.place = place
        self._floor = place
        self._records: deque[TailedRecord] = deque()
        self._most = most

    def add(self, records: Iterable[TailedRecord], until: Mapping[int, int]) -> None:
        """What has come, of each partition in its order, and how far each has been read now."""
        self._records.extend(records)
        self.place = self.place.reaching(until)
        while len(self._records) > self._most:
            gone = self._records.popleft()
            self._floor = self._floor.after(gone.partition, gone.offset)

    def holds(self, place: StreamPlace) -> bool:
        """Whether everything between the place and what was read last is here."""
        # An offset of another topic may look like one of this.
        if place.topic_id != self.place.topic_id:
            return False
        ends = zip(self._floor.offsets, place.offsets, self.place.offsets, strict=True)
        return all(floor <= at <= until for floor, at, until in ends)

    def behind(self, place: StreamPlace) -> list[TailedRecord]:
        """The records that the place has not passed, as they came."""
        return [one for one in self._records if not place.has_passed(one.partition, one.offset)]
