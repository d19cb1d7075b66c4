"""Restored state of a step, read from its topic."""

from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import TopicPartition

from runtime.kafka.reader import read_to_high_watermark
from runtime.processor.commit.record import Input
from runtime.processor.intake import to_input
from tally.config.settings import Settings
from tally.errors import TallyError

# A function from all assigned partitions of the inputs to the records of their state.
ReadState = Callable[[Sequence[TopicPartition]], Iterable[Input]]


def empty_state(_assigned: Sequence[TopicPartition]) -> Iterable[Input]:
    """The empty state of a step without a state topic."""
    return ()


def read_state(
    settings: Settings, topic: str, inputs: Sequence[str], assigned: Sequence[TopicPartition]
) -> Iterable[Input]:
    """Every committed record of the state topic in the partitions whose inputs are assigned.

    Records are read from Kafka during the iteration, up to the ends at its start: call it once the
    positions are known. Raises TallyError when a partition of one input is assigned and of another
    not; the iteration raises StackError or KafkaException when the brokers do not deliver all.
    """
    owned = [{at.partition for at in assigned if at.topic == name} for name in inputs]
    # Two processes would each keep the state of such a partition, and each only half of it.
    if any(numbers != owned[0] for numbers in owned):
        raise TallyError(
            f"{', '.join(inputs)}: their partitions are divided each in another way, and {topic}"
            " keeps one state for all; give them one number of partitions"
        )
    partition_ids = [(topic, number) for number in sorted(owned[0])]
    return (to_input(message) for message in read_to_high_watermark(settings, partition_ids))
