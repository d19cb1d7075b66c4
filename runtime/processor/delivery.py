"""The three delivery guarantees: the order in which outputs are sent and positions are committed.

A delivery has everything that the loop has taken since the last one: the outputs of some inputs,
and by partition the position after the last of them. One call of deliver() stores both; the
guarantee is the state that a crash inside that call leaves behind.

    at_most_once     positions, then outputs     a crash between the two loses the outputs
    at_least_once    outputs, then positions     a crash between the two sends the outputs again
    exactly_once     both in one transaction     a crash leaves neither, or both

The error of deliver() decides what the loop has to do, and each reaction is wrong for the others:

    TransactionAborted   no position is stored, and no output of a transaction either: forget the
                         inputs taken, resume at the committed positions
    OutcomeUnknown       it may be stored: renew() first, and only then read the positions. Sending
                         again from memory would repeat what a commit without an answer has stored
    ProducerFenced       a successor works under the same id: exit. A new producer would fence that
                         one in turn, and so on for ever
    TallyError           exit; the next process begins with renew()

renew() comes before any read: it ends the open transaction of the last producer of this id, and
fences that producer if it lives. A position read earlier could be moved by that transaction
afterwards.

A transaction is open only within deliver(). The consumer is polled between two deliveries, and
changes of its partitions are reported within a poll: no such callback meets an open transaction.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Thread
from typing import Any, Literal, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from runtime.kafka.producer import BlockingProducer, enqueue
from runtime.processor.step import Output
from tally.errors import OutcomeUnknown, ProducerFenced, TallyError, TransactionAborted

# Below the transaction time-out, so that a message is given up before the broker gives up the
# transaction.
MESSAGE_TIMEOUT_MS = 5_000
# A process that is frozen inside a transaction blocks all readers of committed records, and its
# successor, for this long.
TRANSACTION_TIMEOUT_MS = 7_000
CALL_SECONDS = 5.0
# A call that is not back this long after its start hangs: its own time-out has passed.
HANG_SECONDS = 2 * CALL_SECONDS
_FLUSH_SECONDS = 30.0

ErrorReaction = Literal["fenced", "fatal", "abort", "retry"]
# Offsets to read next, each with the position metadata beside it.
Positions = Sequence[TopicPartition]
# The group metadata of the poll, after it was read again and found equal; raises TransactionAborted
# otherwise.
CheckMetadata = Callable[[], Any]

AFTER_POLL = "after_poll"
# Between the two halves of a delivery: the output is sent and the position is not committed yet, or
# the other way round.
BETWEEN = "between_output_and_position"
BEFORE_OFFSETS = "before_offsets"
AFTER_OFFSETS = "after_offsets"
BEFORE_COMMIT = "before_commit"
AFTER_COMMIT = "after_commit"
FAILPOINTS = (AFTER_POLL, BETWEEN, BEFORE_OFFSETS, AFTER_OFFSETS, BEFORE_COMMIT, AFTER_COMMIT)


class Failpoints:
    """A hook that is called at each named moment of a delivery, and does nothing.

    Tests replace it by one that ends the process there: each step survives a crash.
    """

    def hit(self, name: str) -> None:
        """Handle that the moment has come."""


class Delivery(Protocol):
    """Stores outputs and positions together."""

    def renew(self) -> None:
        """Make a new producer; positions are read after this, never before.

        Raises OutcomeUnknown when no broker answers.
        """

    def deliver(
        self, outputs: Sequence[Output], positions: Positions, metadata_now: CheckMetadata
    ) -> None:
        """Store both. Raises TransactionAborted, OutcomeUnknown, ProducerFenced or TallyError."""


def classify_error(error: KafkaError) -> ErrorReaction:
    """The reaction: exit (fenced, fatal), abort and redo (abort), the same call again (retry)."""
    # A transaction that took too long has the error of a fenced one: KIP-588, which distinguishes
    # them, is not in this client library (classify_fencing() asks the group).
    fenced = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.FENCED_INSTANCE_ID)
    is_old = error.fatal() and error.code() == KafkaError.INVALID_PRODUCER_EPOCH
    if error.code() in fenced or is_old:
        return "fenced"
    if error.txn_requires_abort():
        return "abort"
    return "retry" if error.retriable() and not error.fatal() else "fatal"


class ExactlyOnce:
    """Outputs and positions in one transaction; its id is the same from run to run."""

    def __init__(
        self,
        make: Callable[[], Producer],
        name: str,
        failpoints: Failpoints,
        deadline_seconds: float = 30.0,
    ) -> None:
        self._make, self._name, self._failpoints = make, name, failpoints
        self._deadline_seconds = deadline_seconds
        self._producer: Any = None

    def renew(self) -> None:
        """Make a new producer, which fences the last one and aborts its open transaction.

        Never called after ProducerFenced. Raises OutcomeUnknown when no broker answers in time:
        call again; ProducerFenced or TallyError when the process must exit.
        """
        # Messages that are queued and not sent are of a transaction that does not count.
        if self._producer is not None:
            self._producer.purge()
        self._producer = None
        self._producer = self._make()
        try:
            self._retry_until_deadline(lambda: self._producer.init_transactions(CALL_SECONDS))
        except KafkaException as error:
            raise self._fatal_error(error.args[0]) from error

    def deliver(
        self, outputs: Sequence[Output], positions: Positions, metadata_now: CheckMetadata
    ) -> None:
        """Commit outputs and positions together, or raise as the module says."""
        # Checked before the transaction begins: a changed group then costs no abort.
        metadata_now()
        self._call_or_raise(self._producer.begin_transaction)
        self._produce(outputs)
        # Messages are flushed first: offsets sent at the same time find the coordinator busy and
        # wait 100 ms (measured).
        self._call_or_raise(lambda: self._producer.flush(CALL_SECONDS))
        self._failpoints.hit(BETWEEN)
        try:
            metadata = metadata_now()
        except TransactionAborted:
            self._abort()
            raise
        self._failpoints.hit(BEFORE_OFFSETS)
        # One try with a bounded wait: after a broker died the call ignores its time-out
        # (librdkafka issues 5456 and 5511).
        self._call_or_raise(lambda: self._send_offsets(list(positions), metadata), may_retry=False)
        self._failpoints.hit(AFTER_OFFSETS)
        self._failpoints.hit(BEFORE_COMMIT)
        self._call_or_raise(lambda: self._producer.commit_transaction(CALL_SECONDS))
        self._failpoints.hit(AFTER_COMMIT)

    def _send_offsets(self, positions: list[TopicPartition], metadata: Any) -> None:
        """Send the offsets from a separate thread.

        Raises OutcomeUnknown when the call hangs: its producer is abandoned, and the next one
        fences it.
        """
        answer = Future[None]()
        send = self._producer.send_offsets_to_transaction
        offer = partial(_set_answer, answer, partial(send, positions, metadata, CALL_SECONDS))
        Thread(target=offer, name="offsets", daemon=True).start()
        try:
            answer.result(HANG_SECONDS)
        except TimeoutError as error:
            self._producer = None
            raise OutcomeUnknown(
                f"{self._name}: no answer from Kafka about positions in {HANG_SECONDS:.0f} s"
            ) from error

    def _produce(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            record = output.topic, output.value, output.key, output.partition
            try:
                enqueue(self._producer, *record, headers=list(output.headers))
                self._producer.poll(0)
            except KafkaException as error:
                # An error of an earlier message has already doomed the transaction.
                self._abort_or_raise(error)

    def _call_or_raise(self, call: Callable[..., Any], may_retry: bool = True) -> None:
        """Make the call, and retry it while that is the right reaction to its error."""
        try:
            self._retry_until_deadline(call, may_retry)
        except KafkaException as error:
            self._abort_or_raise(error)

    def _abort_or_raise(self, error: KafkaException) -> None:
        problem = error.args[0]
        if classify_error(problem) != "abort":
            raise self._fatal_error(problem) from error
        self._abort()
        raise TransactionAborted(f"{self._name}: transaction aborted: {problem.str()}") from error

    def _abort(self) -> None:
        # An abort before the brokers know the transaction's partitions is fatal in librdkafka: the
        # messages must arrive first.
        try:
            self._producer.flush(CALL_SECONDS)
            self._retry_until_deadline(lambda: self._producer.abort_transaction(CALL_SECONDS))
        except KafkaException as error:
            raise self._fatal_error(error.args[0]) from error

    def _retry_until_deadline(self, call: Callable[..., Any], may_retry: bool = True) -> None:
        deadline = time.monotonic() + (self._deadline_seconds if may_retry else 0.0)
        while True:
            try:
                # The same call again resumes the pending operation, and sends nothing twice.
                call()
                return
            except KafkaException as error:
                if classify_error(error.args[0]) != "retry":
                    raise
                # It is not aborted either: an end that is still under way can hit the next
                # transaction of the same producer (librdkafka issue 5423).
                if time.monotonic() >= deadline:
                    raise OutcomeUnknown(
                        f"{self._name}: no answer from Kafka in time: {error.args[0].str()}"
                    ) from error

    def _fatal_error(self, problem: KafkaError) -> TallyError:
        if classify_error(problem) == "fenced":
            return ProducerFenced(
                f"{self._name}: a newer instance has taken over ({problem.str()});"
                " this one must exit"
            )
        return TallyError(
            f"{self._name}: {problem.str()}; start the process again,"
            " it goes on from what Kafka has committed"
        )


def _set_answer(answer: Future[None], call: Callable[[], None]) -> None:
    """Run the call and set its result or its error as the answer."""
    try:
        call()
        answer.set_result(None)
    except KafkaException as error:
        answer.set_exception(error)
    finally:
        # No effect once there is an answer; any other error is printed by this thread and ends
        # the wait.
        answer.cancel()


class SequentialDelivery:
    """Outputs and positions one after the other, by an idempotent producer."""

    def __init__(
        self, producer: Any, consumer: Any, failpoints: Failpoints, positions_first: bool
    ) -> None:
        self._sender = BlockingProducer(producer, _FLUSH_SECONDS)
        self._consumer, self._failpoints = consumer, failpoints
        self._positions_first = positions_first

    def renew(self) -> None:
        """Do nothing, since no transaction is ever open."""

    def deliver(
        self, outputs: Sequence[Output], positions: Positions, _metadata_now: CheckMetadata
    ) -> None:
        """Store outputs and positions, one after the other."""
        if self._positions_first:
            self._commit_positions(positions)
            self._failpoints.hit(BETWEEN)
            self._send(outputs)
        else:
            self._send(outputs)
            self._failpoints.hit(BETWEEN)
            self._commit_positions(positions)

    def _send(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            record = output.topic, output.value, output.key, output.partition
            self._sender.send(*record, list(output.headers))
        self._sender.flush("Kafka", "start the process again")

    def _commit_positions(self, positions: Positions) -> None:
        self._failpoints.hit(BEFORE_COMMIT)
        try:
            self._consumer.commit(offsets=list(positions), asynchronous=False)
        except KafkaException as error:
            raise TransactionAborted(f"positions not kept: {error.args[0].str()}") from error
        self._failpoints.hit(AFTER_COMMIT)
