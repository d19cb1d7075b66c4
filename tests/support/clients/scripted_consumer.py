"""A Kafka consumer without a broker: partitions with records, whose ends are told as Kafka does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from confluent_kafka import KafkaError, TopicPartition

Lane = tuple[str, int]
END, BEYOND = KafkaError(KafkaError._PARTITION_EOF), KafkaError(KafkaError._AUTO_OFFSET_RESET)
AWAY = KafkaError(KafkaError._TRANSPORT)


@dataclass(frozen=True)
class Told:
    """A record at an offset, or an error that a consumer is told of."""

    lane: Lane
    at: int = 0
    problem: KafkaError | None = None

    def error(self) -> KafkaError | None:
        return self.problem

    def topic(self) -> str:
        return self.lane[0]

    def partition(self) -> int:
        return self.lane[1]

    def offset(self) -> int:
        return self.at


@dataclass(frozen=True)
class Described:
    """A topic as list_topics() tells of it."""

    partitions: Mapping[int, object]
    error: KafkaError | None = None


@dataclass(frozen=True)
class Metadata:
    """What list_topics() answers."""

    topics: Mapping[str, Described]


@dataclass
class ScriptedConsumer:
    """Tells what it is given, one piece a call; then nothing. Knows the partitions `lanes`."""

    lanes: Sequence[Lane] = (("sales", 0), ("sales", 1))
    told: list[list[Told]] = field(default_factory=list)
    watermarks: Mapping[Lane, tuple[int, int]] = field(default_factory=dict)
    positions: Mapping[Lane, Any] = field(default_factory=dict)
    overrides: dict[str, Any] = field(default_factory=dict)
    # Of each consumer that was asked for.
    isolations: list[str] = field(default_factory=list)
    assigned: list[tuple[str, int, int]] = field(default_factory=list)
    unassigned: list[Lane] = field(default_factory=list)
    is_closed: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.is_closed = True

    def list_topics(self, topic: str, _seconds: float) -> Any:
        numbers = {number: object() for name, number in reversed(self.lanes) if name == topic}
        missing = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return Metadata({topic: Described(numbers, None if numbers else missing)})

    def get_watermark_offsets(self, at: TopicPartition, timeout: float) -> tuple[int, int]:
        return self.watermarks[at.topic, at.partition]

    def committed(self, asked: Sequence[TopicPartition], timeout: float) -> list[Any]:
        return [self.positions[at.topic, at.partition] for at in asked]

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self.assigned = [(at.topic, at.partition, at.offset) for at in places]

    def incremental_unassign(self, places: Sequence[TopicPartition]) -> None:
        self.unassigned += [(at.topic, at.partition) for at in places]

    def consume(self, _most: int, _seconds: float) -> list[Told]:
        return self.told.pop(0) if self.told else []

    def poll(self, _seconds: float) -> Told | None:
        some = self.told.pop(0) if self.told else []
        return some[0] if some else None
