"""The shipped dispatcher on the shipped loop, with an injected clock: topics that lie in memory, a
webhook that answers at once or not, and processes that end at any moment.

Of Kafka there is what matters here: records by topic with their offsets, positions that a
transaction stores together with its outputs, and a poll that brings topics in any order.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import TopicPartition

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.records import WebhookMessage
from alerting.deliver.step import ALERTS, CONTROLS, DELIVERIES, TICKS, Dispatcher
from runtime.kafka.topics import PartitionId
from runtime.outbound.caller import OutboundAnswer
from runtime.outbound.step import PendingCalls, PlacedCall
from runtime.processor.alignment import AlignmentLimits
from runtime.processor.delivery import Failpoints
from runtime.processor.intake import Intake, IntakeOptions
from runtime.processor.loop import BatchLimits, Processor
from runtime.processor.step import Input, Output

WebhookCall = PlacedCall[WebhookMessage]
AT_ONCE = BatchLimits(10_000, idle_seconds=0.0)


class Called(NamedTuple):
    """A call that has arrived, and when by the clock of this world (ms since 1970, UTC)."""

    at: int
    message: WebhookMessage


class StoredRecord(NamedTuple):
    """A record of a topic of one partition, as the client library hands it out."""

    of: str
    at: int
    content: bytes
    named: bytes

    def error(self) -> None: ...

    def headers(self) -> None: ...

    def topic(self) -> str:
        return self.of

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def key(self) -> bytes:
        return self.named

    def value(self) -> bytes:
        return self.content


@dataclass
class Webhook(PendingCalls[WebhookMessage, OutboundAnswer]):
    """Calls that end at once. `answer` says how, by what is asked and when."""

    answer: Callable[[Called], OutboundAnswer]
    now: int = 0
    called: list[Called] = field(default_factory=list)
    _ended: list[tuple[WebhookCall, OutboundAnswer]] = field(default_factory=list)

    def begin(self, placed: WebhookCall) -> None:
        call = Called(self.now, placed.call)
        self.called.append(call)
        self._ended.append((placed, self.answer(call)))

    def pending_calls(self) -> list[WebhookCall]:
        return [placed for placed, _ in self._ended]

    def take_answers(self) -> list[tuple[WebhookCall, OutboundAnswer]]:
        ended, self._ended = self._ended, []
        return ended

    def forget(self) -> None:
        """The process has died: nobody hears of its answers."""
        self._ended = []

    def close(self) -> None: ...


@dataclass
class DispatchWorld:
    """Topics, positions and state, which last; and whatever process takes them up."""

    make_engine: Callable[[Callable[[], Any]], DeliveryEngine]
    webhook: Webhook
    # Of several topics that have come at once, the order in which a poll brings them.
    order: Sequence[str] = (ALERTS, TICKS, CONTROLS)
    step: type[Dispatcher] = Dispatcher
    # In which the loop takes them; none for the order of the step.
    reads: Sequence[str] = ()
    written: dict[str, list[StoredRecord]] = field(default_factory=lambda: defaultdict(list))
    committed: dict[str, int] = field(default_factory=dict)

    def write(self, topic: str, value: Any, key: bytes = b"key") -> None:
        """Another record at the end of a topic."""
        records = self.written[topic]
        named = getattr(value, "key", key)
        records.append(
            StoredRecord(
                topic,
                len(records),
                msgspec.json.encode(value),
                named.encode() if isinstance(named, str) else named,
            )
        )

    def tick(self, number: int, at: int) -> None:
        """A tick of this number and instant comes; by it the webhook knows what time it is."""
        self.write(TICKS, {"n": number, "at": at})
        self.webhook.now = max(self.webhook.now, at)

    def process(self) -> "DispatchProcess":
        """A new process, which finds what the last one has stored."""
        return DispatchProcess(self)

    def foreseen(self) -> Iterator[Input]:
        """What topics hold of ticks and controls."""
        for topic in (TICKS, CONTROLS):
            yield from map(_input, self.written[topic])


class DispatchProcess:
    """The loop with the shipped step: consumer, positions, state and delivery in one."""

    def __init__(self, world: DispatchWorld) -> None:
        self._world = world
        self._read: dict[str, int] = {}
        self._turns = 0
        self._on_assign: Callable[..., None] | None = None
        step = world.step(
            world.webhook,
            lambda _number, memories: world.make_engine(memories),
            foreseen=world.foreseen,
        )
        self.step = step
        topics = tuple(world.reads or step.topics)
        intake = Intake(self, IntakeOptions(topics, step.event_time, AlignmentLimits(600)), self)
        self._processor = Processor(intake, step, self, AT_ONCE, self.state)

    def run(self, turns: int = 6) -> None:
        """Some turns of the loop."""
        self._turns = turns
        process = self

        class AfterTurns(Event):
            def is_set(self) -> bool:
                return process._turns <= 0

        self._processor.run(AfterTurns(), Event(), Failpoints())

    def subscribe(self, _topics: list[str], on_assign: Callable[..., None], **_: Any) -> None:
        if not self._read:
            self._on_assign = on_assign

    def consume(self, _count: int, _timeout: float) -> list[StoredRecord]:
        self._turns -= 1
        if self._on_assign is not None:
            on_assign, self._on_assign = self._on_assign, None
            on_assign(self, self.assignment())
            return []
        found: list[StoredRecord] = []
        for topic in self._world.order:
            records = self._world.written[topic]
            found += records[self._read[topic] :]
            self._read[topic] = len(records)
        return found

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(topic, 0) for topic in self._world.order]

    def assign(self, starts: Sequence[TopicPartition]) -> None:
        self._read = {at.topic: at.offset for at in starts}

    def resume(self, _partitions: Sequence[TopicPartition]) -> None: ...

    def consumer_group_metadata(self) -> bytes:
        return b"CGMDv2:" + struct.pack("=i", 1)

    def start_positions(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        committed = self._world.committed
        return [TopicPartition(at.topic, 0, committed.get(at.topic, 0)) for at in partitions]

    def positions_after(self, last: Mapping[PartitionId, Input]) -> list[TopicPartition]:
        return [TopicPartition(*place, record.offset + 1) for place, record in last.items()]

    def current_positions(self, partition_ids: Iterable[PartitionId]) -> list[TopicPartition]:
        committed = self._world.committed
        return [TopicPartition(topic, 0, committed.get(topic, 0)) for topic, _ in partition_ids]

    def brokers_answer(self) -> bool:
        return True

    def state(self, _assigned: Sequence[TopicPartition]) -> Iterable[Input]:
        return [_input(record) for record in self._world.written[DELIVERIES]]

    def renew(self) -> None: ...

    def deliver(
        self,
        outputs: Sequence[Output],
        positions: Sequence[TopicPartition],
        _metadata_now: Callable[[], Any],
    ) -> None:
        self._world.committed |= {at.topic: at.offset for at in positions}
        for output in outputs:
            records = self._world.written[output.topic]
            # A value that is none deletes the key's record.
            records.append(
                StoredRecord(output.topic, len(records), output.value, output.key)  # type: ignore[arg-type]
            )


def _input(record: StoredRecord) -> Input:
    return Input(record.of, 0, record.at, 0, record.named, record.content)
