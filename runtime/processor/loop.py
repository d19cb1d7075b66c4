"""The consume-transform-produce loop around a step, whose state is restored from its topic."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Event

import structlog
from confluent_kafka import TopicPartition

from runtime.kafka.reader import read_to_high_watermark
from runtime.kafka.topics import PartitionId
from runtime.process.heartbeat import Heartbeat
from runtime.processor.alignment import Alignment
from runtime.processor.delivery import AFTER_POLL, Delivery, Failpoints
from runtime.processor.intake import Intake, to_input
from runtime.processor.step import Input, Output, Step
from tally.config.settings import Settings
from tally.errors import OutcomeUnknown, RetryLater, TallyError, TransactionAborted

_LOG_EVERY_SECONDS = 10.0

log = structlog.get_logger()
# The last input by topic and partition.
LastInputs = dict[PartitionId, Input]
# A function from all assigned partitions of the inputs to the records of their state.
ReadState = Callable[[Sequence[TopicPartition]], Iterable[Input]]


def read_state(
    settings: Settings, topic: str, inputs: Sequence[str], assigned: Sequence[TopicPartition]
) -> Iterable[Input]:
    """Every committed record of the state topic in the partitions whose inputs are assigned.

    Empty without a topic. Records are read from Kafka during the iteration, up to the ends at its
    start: call it once the positions are known. Raises TallyError when a partition of one input is
    assigned and of another not; the iteration raises StackError or KafkaException when the brokers
    do not deliver all.
    """
    if not topic:
        return ()
    owned = [{at.partition for at in assigned if at.topic == name} for name in inputs]
    # Two processes would each keep the state of such a partition, and each only half of it.
    if any(numbers != owned[0] for numbers in owned):
        raise TallyError(
            f"{', '.join(inputs)}: their partitions are divided each in another way, and {topic}"
            " keeps one state for all; give them one number of partitions"
        )
    partition_ids = [(topic, number) for number in sorted(owned[0])]
    return (to_input(message) for message in read_to_high_watermark(settings, partition_ids))


@dataclass
class Batch:
    """The outputs of the inputs, and the last input by topic and partition.

    `last` may begin with inputs of busy partitions, which earlier transactions have taken without
    moving their positions.
    """

    outputs: list[Output] = field(default_factory=list)
    last: LastInputs = field(default_factory=dict)
    inputs: int = 0
    started_at: float = 0.0

    def add(self, record: Input, outputs: Sequence[Output], now: float) -> None:
        """Add one input and its outputs."""
        # The age counts from the first input: an idle processor has no transaction.
        if not self.inputs:
            self.started_at = now
        self.inputs += 1
        self.last[record.topic, record.partition] = record
        self.outputs.extend(outputs)

    def split_busy(self, busy: Collection[int]) -> tuple[LastInputs, LastInputs]:
        """The last inputs of partitions that are done, and of those that are busy."""
        done, left = LastInputs(), LastInputs()
        for partition_id, record in self.last.items():
            group = left if partition_id[1] in busy else done
            group[partition_id] = record
        return done, left


@dataclass(frozen=True)
class BatchLimits:
    """When a transaction ends: after so many inputs, idle seconds, or seconds in all."""

    most_inputs: int
    idle_seconds: float = 0.05
    most_seconds: float = 1.0


class Processor:
    """Reads in the step's order, processes, and delivers outputs together with positions."""

    def __init__(
        self,
        intake: Intake,
        step: Step,
        delivery: Delivery,
        limits: BatchLimits,
        state: ReadState = lambda _assigned: (),
    ) -> None:
        self._intake, self._step, self._state = intake, step, state
        self._delivery, self._limits = delivery, limits
        intake.forget, intake.restore = self._forget, self._restore
        self._batch = Batch()
        # The step's before_commit() must be repeated before the step gets more records.
        self._is_waiting = False
        self._counts = _Counts()
        self._heartbeat = Heartbeat(None)

    def run(
        self,
        stopped: Event,
        ready: Event,
        failpoints: Failpoints,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        """Work until stopped; sets `ready` at the first assignment.

        Raises ProducerFenced, DataLoss or TallyError: the process must exit.
        """
        self._heartbeat = heartbeat or self._heartbeat
        self._renew(stopped)
        # Subscribed after the producer is made: an assignment reads positions, and a predecessor's
        # open transaction may still move them.
        self._intake.subscribe()
        while not stopped.is_set():
            try:
                self._run_once(failpoints)
            except TransactionAborted as error:
                log.warning("redo from the committed positions", reason=str(error))
                self._intake.rewind()
            except OutcomeUnknown as error:
                # Only the brokers know whether the commit was applied: positions come from them,
                # never from memory.
                log.warning("new producer, redo from the committed positions", reason=str(error))
                self._renew(stopped)
                self._intake.rewind()
            if self._intake.is_assigned:
                ready.set()
            # Progress means a transaction and not a record: a loop that reads and never stores has
            # stalled.
            self._heartbeat.beat(self._counts.transactions, self._intake.is_behind)

    def close(self) -> None:
        """Leave the group, after the last turn."""
        self._intake.close()

    def _renew(self, stopped: Event) -> None:
        """Make a new producer, however long the brokers take to answer."""
        while not stopped.is_set():
            try:
                self._delivery.renew()
                return
            except OutcomeUnknown as error:
                log.warning("waiting for Kafka", reason=str(error))
            self._heartbeat.beat(self._counts.transactions, self._intake.is_behind)

    def _run_once(self, failpoints: Failpoints) -> None:
        received = self._intake.poll(self._limits.idle_seconds)
        if received:
            failpoints.hit(AFTER_POLL)
        for alignment in self._intake.alignments.values():
            self._take_ready(alignment)
        busy = self._step.busy_partitions
        age = time.monotonic() - self._batch.started_at
        # After a full poll more records wait: one larger transaction costs less than two.
        all_taken = received < self._intake.most_records and all(
            aligned.is_empty(busy) for aligned in self._intake.alignments.values()
        )
        if self._batch.last and (
            self._is_waiting
            or (all_taken and age >= self._limits.idle_seconds)
            or age >= self._limits.most_seconds
        ):
            self._deliver()
        self._counts.log_periodically()

    def _take_ready(self, alignment: Alignment) -> None:
        now = time.monotonic()
        while not self._is_waiting:
            buffer = alignment.find_ready(now, self._step.busy_partitions)
            if buffer is None:
                return
            if self._batch.inputs >= self._limits.most_inputs:
                self._deliver()
                # A delivery takes time that counts as patience with a silent partition, and after
                # it partitions may be busy.
                now = time.monotonic()
                continue
            record = buffer.pop(now)
            self._batch.add(record, self._step.process(record), now)

    def _deliver(self) -> None:
        # before_commit() runs before the transaction begins: its calls to other services, however
        # slow, block no reader of committed records.
        try:
            outputs = self._step.before_commit()
        except RetryLater as error:
            log.warning("the step is asked again", reason=str(error))
            self._is_waiting = True
            return
        self._is_waiting = False
        batch = self._batch
        done, busy = batch.split_busy(self._step.busy_partitions)
        # Replaced first: after any error of the delivery nothing is delivered again from memory.
        self._batch = Batch(last=busy)
        batch.outputs.extend(outputs)
        begun = time.monotonic()
        group = self._intake.positions
        positions = [*group.positions_after(done), *group.current_positions(busy)]
        self._delivery.deliver(batch.outputs, positions, self._intake.check_metadata)
        self._counts.add(batch, time.monotonic() - begun)
        self._step.on_commit()

    def _forget(self) -> None:
        self._batch = Batch()
        self._is_waiting = False

    def _restore(self, assigned: Sequence[TopicPartition]) -> None:
        begun = time.monotonic()
        self._step.restore(self._state(assigned))
        if self._step.state_topic:
            self._heartbeat.record_restore(time.monotonic() - begun)


class _Counts:
    """Counts of records and transactions of this run, for the log."""

    def __init__(self) -> None:
        self.transactions = self._logged = 0
        self._sums: Counter[str] = Counter(inputs=0, outputs=0)
        self._seconds, self._logged_at = 0.0, time.monotonic()

    def add(self, batch: Batch, seconds: float) -> None:
        """Count one delivered transaction and how long its delivery took."""
        self._sums.update(inputs=batch.inputs, outputs=len(batch.outputs))
        self.transactions += 1
        self._seconds += seconds

    def log_periodically(self) -> None:
        """Log the sums so far, if they have changed and the last line is long enough ago."""
        now, count = time.monotonic(), self.transactions
        if count > self._logged and now - self._logged_at >= _LOG_EVERY_SECONDS:
            self._logged, self._logged_at = count, now
            seconds = round(self._seconds, 1)
            log.info("processed", **self._sums, transactions=count, delivery_seconds=seconds)
