"""What a processor meets of Kafka, without Kafka: a group, its positions, a state topic and a
delivery, which note in what order they were asked."""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, Literal

from confluent_kafka import TopicPartition

from runtime.kafka.topics import PartitionId
from runtime.processor.alignment import AlignmentLimits
from runtime.processor.delivery import Failpoints
from runtime.processor.intake import Intake, IntakeOptions
from runtime.processor.loop import BatchLimits, Processor
from runtime.processor.step import Input, Output, Step
from tally.errors import OutcomeUnknown, TransactionAborted

STATE = "counts"
Outcome = Literal["committed", "aborted", "lost", "applied"]
# A transaction ends with each poll that has brought something.
AT_ONCE = BatchLimits(100, idle_seconds=0.0)


@dataclass(frozen=True)
class KeyMessage:
    """A message whose key is all that counts."""

    number: int
    at: int
    text: str

    def error(self) -> None: ...

    def headers(self) -> None: ...

    def topic(self) -> str:
        return "in"

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at

    def key(self) -> bytes:
        return self.text.encode()

    def value(self) -> bytes:
        return b""


class Brokers:
    """Kafka as one member of a group meets it. `keys` of the records by partition.

    `script` is what each poll brings: so many records, or another division that gives these
    partitions. `outcomes` are those of the first deliveries; after them each is committed. `lost`
    and `applied` are commits without an answer.
    """

    def __init__(
        self,
        keys: Mapping[int, str],
        script: Sequence[int | tuple[int, ...]],
        outcomes: Sequence[Outcome] = (),
    ) -> None:
        self.calls: list[str] = []
        self.told: list[str] = []
        self.kept: list[Input] = []
        self.committed = dict.fromkeys(keys, 0)
        self._keys, self._script, self._outcomes = keys, [*script], [*outcomes]
        self._read: dict[int, int] = {}
        self._generation = 0
        self._callbacks: dict[str, Callable[..., None]] = {}

    def run(self, step: Step, limits: BatchLimits = AT_ONCE) -> None:
        """The loop with this step, until the script is over."""
        brokers = self

        class AtTheEnd(Event):
            def is_set(self) -> bool:
                return not brokers._script

        intake = Intake(self, IntakeOptions(("in",), step.event_time, AlignmentLimits(600)), self)
        processor = Processor(intake, step, self, limits, self.state)
        processor.run(AtTheEnd(), Event(), Failpoints())

    def subscribe(self, _topics: list[str], **callbacks: Callable[..., None]) -> None:
        self.calls.append("join")
        self._callbacks = callbacks

    def consume(self, _count: int, _timeout: float) -> list[KeyMessage]:
        move = self._script.pop(0)
        if isinstance(move, int):
            return [self._next() for _ in range(move)]
        if self._read:
            self._callbacks["on_revoke"](self, self.assignment())
        self._generation += 1
        self._read = dict.fromkeys(move, -1)
        self._callbacks["on_assign"](self, self.assignment())
        return []

    def _next(self) -> KeyMessage:
        number = next(n for n, at in self._read.items() if at < len(self._keys[n]))
        self._read[number] += 1
        at = self._read[number] - 1
        return KeyMessage(number, at, self._keys[number][at])

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("in", number) for number in self._read]

    def assign(self, starts: Sequence[TopicPartition]) -> None:
        self._read = {at.partition: at.offset for at in starts}

    def resume(self, _partitions: Sequence[TopicPartition]) -> None: ...

    def consumer_group_metadata(self) -> bytes:
        return b"CGMDv2:" + struct.pack("=i", self._generation)

    def start_positions(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        numbers = [at.partition for at in partitions]
        self.calls.append(f"positions of {numbers}")
        return [TopicPartition("in", number, self.committed[number]) for number in numbers]

    def positions_after(self, last: Mapping[PartitionId, Input]) -> list[TopicPartition]:
        return [
            TopicPartition(*partition_id, record.offset + 1)
            for partition_id, record in last.items()
        ]

    def current_positions(self, partition_ids: Iterable[PartitionId]) -> list[TopicPartition]:
        return [
            TopicPartition(*partition_id, self.committed[partition_id[1]])
            for partition_id in partition_ids
        ]

    def brokers_answer(self) -> bool:
        return True

    def state(self, assigned: Sequence[TopicPartition]) -> Iterable[Input]:
        numbers = [at.partition for at in assigned]
        self.calls.append(f"state of {numbers}")
        return [record for record in self.kept if record.partition in numbers]

    def keep(self, partition: int, **counts: int) -> None:
        """Counts that a predecessor has left."""
        for key, count in counts.items():
            self.kept.append(_state_record(partition, key.encode(), b"%d" % count))

    def renew(self) -> None:
        self.calls.append("renew")

    def deliver(
        self,
        outputs: Sequence[Output],
        positions: Sequence[TopicPartition],
        metadata_now: Callable[[], Any],
    ) -> None:
        metadata_now()
        outcome = self._outcomes.pop(0) if self._outcomes else "committed"
        self.calls.append(outcome)
        if outcome in ("committed", "applied"):
            self._store(outputs, positions)
        if outcome == "aborted":
            raise TransactionAborted("aborted")
        if outcome in ("lost", "applied"):
            raise OutcomeUnknown("no answer")

    def _store(self, outputs: Sequence[Output], positions: Sequence[TopicPartition]) -> None:
        assert positions
        self.committed |= {at.partition: at.offset for at in positions}
        for output in outputs:
            if output.topic == STATE:
                self.kept.append(_state_record(output.partition, output.key, output.value))
            else:
                self.told.append((output.value or b"").decode())


def _state_record(partition: int, key: bytes | None, value: bytes | None) -> Input:
    return Input(STATE, partition, 0, 0, key, value)
