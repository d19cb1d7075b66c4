"""Wrong on purpose: what a processor with a memory must not do, put into the shipped one before it
runs.

Each of them touches the processor that it is given and nothing else.
"""

from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import TopicPartition

from runtime.kafka.reader import read_to_end
from runtime.processor.delivery import CheckMetadata, Delivery, Positions
from runtime.processor.intake import to_input
from runtime.processor.loop import Processor
from runtime.processor.service import ProcessorJob
from runtime.processor.step import Input, Output
from tally.config.settings import Settings
from tally.errors import ProducerFenced
from tests.controls.guard import refuse_outside_tests

Restore = Callable[[Sequence[TopicPartition]], None]


def restoring_too_little(settings: Settings, job: ProcessorJob, processor: Processor) -> None:
    """The state is read as far as it is stable, as a reader of committed records does it."""
    refuse_outside_tests(settings)

    def state(assigned: Sequence[TopicPartition]) -> Iterable[Input]:
        owned = {at.partition for at in assigned}
        records = map(to_input, read_to_end(settings, [job.step.state_topic]))
        return (one for one in records if one.partition in owned)

    processor._state = state


def keeping_memory(settings: Settings, _job: ProcessorJob, processor: Processor) -> None:
    """An abort takes the positions back, and leaves the memory as it is."""
    refuse_outside_tests(settings)
    processor._intake.restore = _RestoreOnAssignment(processor._intake.restore)


def sending_by_itself(settings: Settings, _job: ProcessorJob, processor: Processor) -> None:
    """What is to be told goes out in a transaction without positions, as that of a timer's would;
    those follow in one more."""
    refuse_outside_tests(settings)
    consumer = processor._intake._consumer
    processor._delivery = _TimersTransaction(processor._delivery, consumer.consumer_group_metadata)


def going_on_although_fenced(settings: Settings, _job: ProcessorJob, processor: Processor) -> None:
    """Who is fenced by a successor makes a new producer and sends again, which fences that one."""
    refuse_outside_tests(settings)
    processor._delivery = _NeverFenced(processor._delivery)


class _RestoreOnAssignment:
    """Restores when other partitions are assigned, and not when the same are read again."""

    def __init__(self, restore: Restore) -> None:
        self._restore = restore
        self._lanes: set[tuple[str, int]] = set()

    def __call__(self, assigned: Sequence[TopicPartition]) -> None:
        lanes = {(at.topic, at.partition) for at in assigned}
        if lanes != self._lanes:
            self._lanes = lanes
            self._restore(assigned)


class _TimersTransaction:
    """A delivery in two transactions, of which the brokers check the second one alone."""

    def __init__(self, delivery: Delivery, metadata: CheckMetadata) -> None:
        self._delivery, self._metadata = delivery, metadata

    def renew(self) -> None:
        self._delivery.renew()

    def deliver(
        self, outputs: Sequence[Output], positions: Positions, metadata_now: CheckMetadata
    ) -> None:
        if outputs:
            self._delivery.deliver(outputs, (), self._metadata)
        self._delivery.deliver((), positions, metadata_now)


class _NeverFenced:
    """A delivery that fences whoever has fenced it."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def renew(self) -> None:
        self._delivery.renew()

    def deliver(
        self, outputs: Sequence[Output], positions: Positions, metadata_now: CheckMetadata
    ) -> None:
        try:
            self._delivery.deliver(outputs, positions, metadata_now)
        except ProducerFenced:
            self._delivery.renew()
            self._delivery.deliver(outputs, positions, metadata_now)
