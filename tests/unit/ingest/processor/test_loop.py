"""Where one transaction ends and the next begins, and what is redone.

Consumer and delivery are stand-ins; no Kafka.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Event
from typing import Any

from confluent_kafka import TopicPartition

from runtime.kafka.topics import PartitionId
from runtime.process.heartbeat import Heartbeat
from runtime.processor.alignment import AlignmentLimits
from runtime.processor.delivery import Failpoints
from runtime.processor.intake import Intake, IntakeOptions, parse_generation
from runtime.processor.loop import BatchLimits, Processor
from runtime.processor.step import Input, Output, Step
from tally.errors import OutcomeUnknown, TransactionAborted

HOUR = 3600.0


class HourMessage:
    """A message whose value is its event time in hours."""

    def __init__(self, offset: int, hours: float) -> None:
        self.topic, self.partition, self.offset = (lambda: "in"), (lambda: 0), (lambda: offset)
        self.value, self.key, self.headers = (
            (lambda: str(hours).encode()),
            (lambda: None),
            (lambda: None),
        )
        self.timestamp, self.error = (lambda: (1, 0)), (lambda: None)


class OnePartition:
    """A consumer of one partition; it begins where `committed_offset` says."""

    def __init__(self, hours: Sequence[float]) -> None:
        self.hours = hours
        self.committed_offset = -1001
        self.position = -1
        self._on_assign: Callable[..., None] | None = None

    def subscribe(self, _topics: list[str], on_assign: Callable[..., None], **_others: Any) -> None:
        self._on_assign = on_assign

    def consume(self, count: int, _timeout: float) -> list[HourMessage]:
        if self._on_assign is not None:
            on_assign, self._on_assign = self._on_assign, None
            on_assign(self, self.assignment())
        first, self.position = self.position, min(len(self.hours), self.position + count)
        return [HourMessage(offset, self.hours[offset]) for offset in range(first, self.position)]

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("in", 0)]

    def assign(self, starts: list[TopicPartition]) -> None:
        self.position = max(0, starts[0].offset)

    def resume(self, _partitions: list[TopicPartition]) -> None:
        pass

    def consumer_group_metadata(self) -> bytes:
        return b"CGMDv2:" + struct.pack("=i", 7)


class Positions:
    """Positions of the consumer's, without metadata."""

    def __init__(self, consumer: OnePartition) -> None:
        self._consumer = consumer

    def start_positions(self, _partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition("in", 0, self._consumer.committed_offset)]

    def positions_after(self, last: Mapping[PartitionId, Input]) -> list[TopicPartition]:
        return [
            TopicPartition(*partition_id, record.offset + 1)
            for partition_id, record in last.items()
        ]

    def current_positions(self, partition_ids: Iterable[PartitionId]) -> list[TopicPartition]:
        return [
            TopicPartition(*partition_id, self._consumer.committed_offset)
            for partition_id in partition_ids
        ]

    def brokers_answer(self) -> bool:
        return True


class Recorded:
    """A delivery that keeps batches, and raises the errors that it is given first."""

    def __init__(
        self, consumer: OnePartition, errors: Sequence[Exception] = (), slow_brokers: int = 0
    ) -> None:
        self.batches: list[list[float]] = []
        self.renewals = 0
        self.beats = Beats()
        # How many batches had been delivered each time that the step had to begin anew.
        self.restored: list[int] = []
        self._consumer, self._errors, self._slow = consumer, list(errors), slow_brokers

    def renew(self) -> None:
        self.renewals += 1
        if self.renewals <= self._slow:
            raise OutcomeUnknown("no broker")

    def deliver(
        self,
        outputs: Sequence[Output],
        positions: Sequence[TopicPartition],
        metadata_now: Callable[[], Any],
    ) -> None:
        assert parse_generation(metadata_now()) == 7
        if self._errors:
            raise self._errors.pop(0)
        self.batches.append([float(output.value or b"") for output in outputs])
        [self._consumer.committed_offset] = [at.offset for at in positions]


class Copy(Step):
    """Copies each record, whose event time is its hour; `begun` is called when it begins anew."""

    def __init__(self, begun: Callable[[], None]) -> None:
        self._begun = begun

    def process(self, record: Input) -> Sequence[Output]:
        return (Output("out", None, record.value),)

    def restore(self, _state: Iterable[Input]) -> None:
        self._begun()

    def event_time(self, record: Input) -> float:
        return float(record.value or b"") * HOUR


class Beats(Heartbeat):
    """A heartbeat that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(None)
        self.told: list[object] = []

    def beat(self, progress: object, is_behind: bool) -> None:
        self.told.append(progress)


def delivered(
    hours: Sequence[float],
    limits: BatchLimits,
    errors: Sequence[Exception] = (),
    slow_brokers: int = 0,
) -> Recorded:
    """What was delivered by the time that the last record was."""
    consumer, stopped = OnePartition(hours), Event()
    delivery = Recorded(consumer, errors, slow_brokers)
    step = Copy(lambda: delivery.restored.append(len(delivery.batches)))

    class StopAtEnd(Event):
        def set(self) -> None:
            if consumer.committed_offset == len(hours):
                stopped.set()

    reading = IntakeOptions(("in",), step.event_time, AlignmentLimits(600))
    intake = Intake(consumer, reading, Positions(consumer))
    Processor(intake, step, delivery, limits).run(
        stopped, StopAtEnd(), Failpoints(), delivery.beats
    )
    return delivery


def test_records_of_any_length_of_event_time_share_a_transaction() -> None:
    assert delivered([0, 0.5, 9000, 2], BatchLimits(100)).batches == [[0, 0.5, 9000, 2]]


def test_transaction_ends_at_its_most_inputs() -> None:
    assert delivered([1, 1, 1, 1, 1], BatchLimits(2)).batches == [[1, 1], [1, 1], [1]]


def test_aborted_transaction_is_redone_from_the_committed_position() -> None:
    assert delivered([1, 3, 5], BatchLimits(1), [TransactionAborted("group changed")]).batches == [
        [1],
        [3],
        [5],
    ]


def test_unknown_outcome_takes_a_new_producer_and_redoes() -> None:
    delivery = delivered([1, 3, 5], BatchLimits(1), [OutcomeUnknown("no answer")])

    assert (delivery.batches, delivery.renewals) == ([[1], [3], [5]], 2)


def test_producer_is_asked_for_until_the_brokers_answer() -> None:
    assert delivered([1], BatchLimits(100), slow_brokers=3).renewals == 4


def test_step_begins_anew_at_each_assignment_and_when_its_transaction_does_not_count() -> None:
    assert delivered([1, 3], BatchLimits(1)).restored == [0]
    assert delivered([1, 3, 5], BatchLimits(1), [TransactionAborted("group changed")]).restored == [
        0,
        0,
    ]


def test_loop_beats_with_each_delivery_as_progress_and_while_it_waits_for_the_brokers() -> None:
    beats = delivered([1, 3, 5], BatchLimits(1), slow_brokers=2).beats.told

    assert beats[:2] == [0, 0] and beats[-1] == 3
