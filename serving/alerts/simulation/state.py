"""By what the evaluators have judged, as the brokers keep it: instants, silences, generations."""

from collections import defaultdict
from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple, Protocol

from confluent_kafka import KafkaException

from runtime.connect import kafka_consumer
from runtime.processor.intake import input_of
from runtime.reading import read_until
from runtime.topics import bounds_of, partition_numbers
from serving.alerts.evaluator.chain_memory import ForcedEnd
from serving.alerts.evaluator.memory import (
    STATE_TOPIC,
    FamilyDay,
    FamilyStore,
    JudgedDay,
    PartitionMemory,
)
from tally.alerts.ids import Chain
from tally.alerts.tick import Tick
from tally.errors import StackError, ViewsUnreachable
from tally.settings import Settings

ANSWER_SECONDS = 30.0
# What was told and where folds stand: a simulation works out the one and reads the other elsewhere.
_PASSED_OVER = (b"e|", b"h|", b"f|")


class EvaluatedBy(NamedTuple):
    """Of one partition the tick that was judged last, and by store and day what memory.py says."""

    tick: Tick
    silent_from: Mapping[FamilyStore, int]
    judged: Mapping[FamilyDay, JudgedDay]
    forced: Mapping[Chain, Mapping[int, ForcedEnd]]


class StateSource(Protocol):
    """Where it is read."""

    def read(self) -> Mapping[int, EvaluatedBy]:
        """By the partition's number, which counts from 0; none of one that was never judged.

        Raises ViewsUnreachable.
        """
        ...


class StateReader:
    """A StateSource over the topic. What was read once is kept: a later call reads on."""

    def __init__(self, settings: Settings, topic: str = STATE_TOPIC) -> None:
        self._settings, self._topic = settings, topic
        self._memories: dict[int, PartitionMemory] = {}
        self._next: dict[int, int] = defaultdict(int)
        self._lock = Lock()

    def read(self) -> Mapping[int, EvaluatedBy]:
        """By partition, which counts from 0, as far as the topic is stable now.

        Raises ViewsUnreachable, and Refused for a record that is none of an evaluator.
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
            # Copies: another call reads on while this one is judged by.
            return {number: _evaluated_by(one) for number, one in self._memories.items()}

    def _ends(self) -> dict[int, int]:
        with kafka_consumer(self._settings, "alert-state") as consumer:
            numbers = partition_numbers(consumer, self._topic, ANSWER_SECONDS)
            lanes = {number: (self._topic, number) for number in numbers}
            return {
                number: bounds_of(consumer, lane, ANSWER_SECONDS).end
                for number, lane in lanes.items()
            }

    def _read_on(self, number: int, end: int) -> None:
        # A topic that was made anew begins again.
        start = self._next[number] if self._next[number] <= end else 0
        memory = self._memories.get(number) if start else None
        memory = memory or PartitionMemory(number)
        if start < end:
            lane = self._topic, number
            for record in map(input_of, read_until(self._settings, lane, end, start)):
                if not (record.key or b"").startswith(_PASSED_OVER):
                    memory.recall(record)
        self._memories[number], self._next[number] = memory, end


def _evaluated_by(memory: PartitionMemory) -> EvaluatedBy:
    forced = {chain: dict(ends) for chain, ends in memory.chains.all_forced_ends.items()}
    return EvaluatedBy(memory.last, dict(memory.silent_from), dict(memory.judged), forced)
