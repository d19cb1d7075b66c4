"""Alignment of several partitions by event time: catching up does not make honest records late.

The order of a canonical partition decides which records are late, and that is the order in which
this reader takes the raw records. Read at full speed, partitions of the real year come to lie days
of event time apart, and a store whose messages lie in several of them would find its windows closed
by its own future. Therefore partitions are merged: the next record comes from the one whose
first record is the earliest.

    partition 0    10:00  10:02  10:40
    partition 1    10:01  and nothing more has come
    taken          10:00, 10:01, 10:02; then it waits: partition 1 has reached 10:01, and nothing
                   beyond 10:11 (a lead of 600 s) is taken before its next record

It may go on when partition 1

- brings a record (`add`): then that record counts, even if it is older;
- is known to have ended (`mark_ended`), that is, the client library has reached the end of its log;
- has been silent for longer than the patience: transaction markers may follow the last record,
  which hide that end for as long as nothing else comes.

Within a partition the order is always that of the offsets, independent of event times: a late
record does not move its partition back, and a record without a readable time never waits. Where the
step has no event time all records are of this kind, and no partition holds another back. A
partition with a full buffer is paused and resumed at half of it, so that one that is days ahead
fills no memory.

The module is pure: no Kafka, no clock; `now` is any monotonic time in seconds.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from runtime.processor.step import Input

_NEVER = float("-inf")


@dataclass(frozen=True)
class AlignmentLimits:
    """The lead over a silent partition and the patience with it; when a partition is paused."""

    lead_seconds: float
    max_wait_seconds: float = 2.0
    most_records: int = 4_000
    most_bytes: int = 32_000_000


@dataclass
class PartitionBuffer:
    """The buffered records of one partition, first in, first out, and its event time."""

    partition: int
    silent_since: float
    ended: bool = False
    paused: bool = False
    progress: float = _NEVER
    bytes: int = 0
    records: deque[tuple[float | None, Input]] = field(default_factory=deque)

    def head_time(self) -> float:
        """The event time that the partition will have reached with its next record.

        A late record does not move it back; one without a readable time goes first.
        """
        time = self.records[0][0]
        return _NEVER if time is None else max(time, self.progress)

    def pop(self, now: float) -> Input:
        """Remove and return the next record; the partition has then reached its event time."""
        time, record = self.records.popleft()
        self.bytes -= len(record.value or b"")
        if time is not None and time > self.progress:
            self.progress = time
        if not self.records:
            self.silent_since = now
        return record


class Alignment:
    """The partitions of one topic, merged by event time."""

    def __init__(self, limits: AlignmentLimits) -> None:
        self._limits = limits
        self._buffers: dict[int, PartitionBuffer] = {}

    def assign(self, partitions: Iterable[int], now: float) -> None:
        """Reset to these partitions with empty buffers."""
        self._buffers = {partition: PartitionBuffer(partition, now) for partition in partitions}

    def add(self, record: Input, event_time: float | None) -> None:
        """Buffer a record of an assigned partition; records of others are dropped."""
        buffer = self._buffers.get(record.partition)
        if buffer is not None:
            # The end reported before is outdated.
            buffer.ended = False
            buffer.bytes += len(record.value or b"")
            buffer.records.append((event_time, record))

    def mark_ended(self, partition: int) -> None:
        """Note that the partition has no further records for now."""
        if partition in self._buffers:
            self._buffers[partition].ended = True

    def find_ready(self, now: float, busy: Collection[int] = ()) -> PartitionBuffer | None:
        """The partition whose next record is to be taken now; None if none is ready.

        Busy partitions are neither taken from nor waited for.
        """
        best, best_time, bound = None, float("inf"), float("inf")
        for buffer in self._buffers.values():
            if buffer.partition in busy:
                continue
            if buffer.records:
                time = buffer.head_time()
                if time < best_time:
                    best, best_time = buffer, time
            elif not buffer.ended and now - buffer.silent_since < self._limits.max_wait_seconds:
                bound = min(bound, buffer.progress + self._limits.lead_seconds)
        # A record without a readable time (-inf) never waits.
        return best if best_time <= bound or best_time == _NEVER else None

    def is_empty(self, busy: Collection[int] = ()) -> bool:
        """Whether nothing is buffered, except for busy partitions."""
        buffers = (buffer for buffer in self._buffers.values() if buffer.partition not in busy)
        return not any(buffer.records for buffer in buffers)

    def is_behind(self) -> bool:
        """Whether a partition has records buffered, or its end has not been seen yet."""
        return any(buffer.records or not buffer.ended for buffer in self._buffers.values())

    def to_pause(self) -> list[int]:
        """The partitions that now hold enough; they count as paused from here on."""
        buffers = self._buffers.values()
        return _switch([at for at in buffers if not at.paused and self._is_above(at, 1.0)])

    def to_resume(self) -> list[int]:
        """The paused partitions that are down to half; they count as fetching from here on."""
        # They resume at half: just below the limit the next record would pause them again.
        buffers = self._buffers.values()
        return _switch([at for at in buffers if at.paused and not self._is_above(at, 0.5)])

    def _is_above(self, buffer: PartitionBuffer, share: float) -> bool:
        return (
            len(buffer.records) > share * self._limits.most_records
            or buffer.bytes > share * self._limits.most_bytes
        )


def _switch(buffers: Sequence[PartitionBuffer]) -> list[int]:
    """Their partitions, paused from here on if they were not, and the other way round."""
    for buffer in buffers:
        buffer.paused = not buffer.paused
    return [buffer.partition for buffer in buffers]
