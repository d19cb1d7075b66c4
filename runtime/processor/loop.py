"""The consume-transform-produce loop; the processing of records is a step given to it."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from threading import Event

import structlog
from confluent_kafka import TopicPartition

from runtime.kafka.topics import PartitionId
from runtime.process.heartbeat import Heartbeat
from runtime.processor.alignment import Alignment, PartitionBuffer
from runtime.processor.commit.delivery import Delivery
from runtime.processor.commit.failpoints import AFTER_POLL, Failpoints
from runtime.processor.commit.record import Input, Output
from runtime.processor.intake import Intake
from runtime.processor.state import ReadState, empty_state
from runtime.processor.step import Step
from tally.errors import OutcomeUnknown, RetryLater, TransactionAborted

# The last input by topic and partition.
LastInputs = dict[PartitionId, Input]


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


_LOG_EVERY_SECONDS = 10.0

log = structlog.get_logger()


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
        state: ReadState = empty_state,
    ) -> None:
        self._intake = intake
        intake.forget, intake.restore = self._forget, self._restore
        self._step = step
        self._state = state
        self._delivery = delivery
        self._limits = limits
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
        while (buffer := self._next_partition(alignment, now)) is not None:
            if self._batch.inputs >= self._limits.most_inputs:
                self._deliver()
                # A delivery takes time that counts as patience with a silent partition, and after
                # it partitions may be busy.
                now = time.monotonic()
                continue
            record = buffer.pop(now)
            self._batch.add(record, self._step.process(record), now)

    def _next_partition(self, alignment: Alignment, now: float) -> PartitionBuffer | None:
        if self._is_waiting:
            return None
        return alignment.find_ready(now, self._step.busy_partitions)

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
        self._inputs = self._outputs = self.transactions = 0
        self._delivery_seconds = 0.0
        self._logged_at = time.monotonic()
        self._changed = False

    def add(self, batch: Batch, seconds: float) -> None:
        """Count one delivered transaction and how long its delivery took."""
        self._inputs += batch.inputs
        self._outputs += len(batch.outputs)
        self.transactions += 1
        self._delivery_seconds += seconds
        self._changed = True

    def log_periodically(self) -> None:
        """Log the sums so far, if they have changed and the last line is long enough ago."""
        if not self._changed or time.monotonic() - self._logged_at < _LOG_EVERY_SECONDS:
            return
        self._logged_at, self._changed = time.monotonic(), False
        seconds = round(self._delivery_seconds, 1)
        log.info(
            "processed",
            inputs=self._inputs,
            outputs=self._outputs,
            transactions=self.transactions,
            delivery_seconds=seconds,
        )
