"""The state by which the evaluators have judged, read from the brokers.

It has the instants of ticks, the begins of silences, and the generations.
"""

from collections import defaultdict
from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple, Protocol

from confluent_kafka import KafkaException

from alerting.alert.ids import Chain
from alerting.evaluate.state.chain_memory import ForcedEnd
from alerting.evaluate.state.memory import (
    STATE_TOPIC,
    EvaluatedDay,
    FamilyDay,
    FamilyStore,
    PartitionMemory,
)
from runtime.connect import kafka_consumer
from runtime.kafka.reader import read_until
from runtime.kafka.topics import partition_numbers, read_partition_bounds
from runtime.processor.intake import to_input
from tally.alerts.tick import Tick
from tally.config.settings import Settings
from tally.errors import StackError, ViewsUnreachable

ANSWER_SECONDS = 30.0
# Records of sent alerts and of fold states: a simulation computes the latter and reads the former
# from the tables.
_SKIPPED_PREFIXES = (b"e|", b"h|", b"f|")


class EvaluatorState(NamedTuple):
    """A partition's last judged tick, and the state by store and day that memory.py describes."""

    last_tick: Tick
    silent_from: Mapping[FamilyStore, int]
    evaluated_days: Mapping[FamilyDay, EvaluatedDay]
    forced_ends: Mapping[Chain, Mapping[int, ForcedEnd]]


class StateSource(Protocol):
    """A source of the evaluators' state."""

    def read(self) -> Mapping[int, EvaluatorState]:
        """The state by partition, which counts from 0; never judged partitions are absent.

        Raises ViewsUnreachable.
        """
        ...


class StateReader:
    """A StateSource over the topic; it keeps what was read, and later calls read on from there."""

    def __init__(self, settings: Settings, topic: str = STATE_TOPIC) -> None:
        self._settings, self._topic = settings, topic
        self._memories: dict[int, PartitionMemory] = {}
        self._next: dict[int, int] = defaultdict(int)
        self._lock = Lock()

    def read(self) -> Mapping[int, EvaluatorState]:
        """The state by partition, which counts from 0, up to the last stable offsets.

        Raises ViewsUnreachable, and Refused for a record that no evaluator has written.
        """
        with self._lock:
            try:
                for number, end in self._ends().items():
                    self._read_on(number, end)
            except (KafkaException, StackError) as error:
                raise ViewsUnreachable(
                    "what evaluators have judged cannot be read; look at `tally status` and ask"
                    " again"
                ) from error
            # Copies, because another call may read on while this result is in use.
            return {number: _copy_state(memory) for number, memory in self._memories.items()}

    def _ends(self) -> dict[int, int]:
        with kafka_consumer(self._settings, "alert-state") as consumer:
            numbers = partition_numbers(consumer, self._topic, ANSWER_SECONDS)
            lanes = {number: (self._topic, number) for number in numbers}
            return {
                number: read_partition_bounds(consumer, lane, ANSWER_SECONDS).end
                for number, lane in lanes.items()
            }

    def _read_on(self, number: int, end: int) -> None:
        # A re-created topic is read from its begin.
        start = self._next[number] if self._next[number] <= end else 0
        memory = self._memories.get(number) if start else None
        memory = memory or PartitionMemory(number)
        if start < end:
            lane = self._topic, number
            for record in map(to_input, read_until(self._settings, lane, end, start)):
                if not (record.key or b"").startswith(_SKIPPED_PREFIXES):
                    memory.load(record)
        self._memories[number], self._next[number] = memory, end


def _copy_state(memory: PartitionMemory) -> EvaluatorState:
    forced = {chain: dict(ends) for chain, ends in memory.chains.all_forced_ends.items()}
    return EvaluatorState(
        memory.last_tick, dict(memory.silent_from), dict(memory.evaluated_days), forced
    )
