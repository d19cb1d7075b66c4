"""A transactional producer, with a reaction to each of its errors."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Thread
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from runtime.kafka.producer import enqueue
from runtime.processor.commit.failpoints import (
    AFTER_OFFSETS,
    BEFORE_COMMIT,
    BEFORE_OFFSETS,
    BETWEEN,
    Failpoints,
)
from runtime.processor.commit.record import Output
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

ErrorReaction = Literal["fenced", "fatal", "abort", "retry"]


def classify_error(error: KafkaError) -> ErrorReaction:
    """The reaction to an error of a transactional call.

    fenced, fatal: exit; abort: abort and redo; retry: make the same call again.
    """
    # A transaction that took too long has the error of a fenced one: KIP-588, which distinguishes
    # them, is not in this client library (rivals.py asks the group).
    fenced = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.FENCED_INSTANCE_ID)
    if error.code() in fenced or (
        error.fatal() and error.code() == KafkaError.INVALID_PRODUCER_EPOCH
    ):
        return "fenced"
    if error.txn_requires_abort():
        return "abort"
    return "retry" if error.retriable() and not error.fatal() else "fatal"


class TransactionalProducer:
    """Sends outputs and positions in one transaction, under one transactional.id.

    The id is the same from run to run.
    """

    def __init__(
        self,
        make: Callable[[], Producer],
        name: str,
        failpoints: Failpoints,
        deadline_seconds: float = 30.0,
    ) -> None:
        self._make = make
        self._name = name
        self._failpoints = failpoints
        self._deadline_seconds = deadline_seconds
        self._producer: Any = None

    def renew(self) -> None:
        """Make a new producer with the same id, which fences its predecessor.

        An open transaction of the predecessor is aborted. Positions and state must be read only
        after this. Never called after ProducerFenced. Raises OutcomeUnknown when no broker answers
        in time: call again; ProducerFenced or TallyError when the process must exit.
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

    def send(
        self,
        outputs: Sequence[Output],
        positions: Sequence[TopicPartition],
        metadata_now: Callable[[], Any],
    ) -> None:
        """Commit outputs and positions together.

        metadata_now reads the group metadata again and returns it, or raises TransactionAborted
        when it differs from that of the poll.

        Raises TransactionAborted (nothing is stored), OutcomeUnknown (it may be), ProducerFenced or
        TallyError (the process must exit).
        """
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

    def _send_offsets(self, positions: list[TopicPartition], metadata: Any) -> None:
        """Send the offsets from a separate thread.

        Raises OutcomeUnknown when the call hangs: its producer is abandoned, and the next one
        fences it.
        """
        answer = Future[None]()
        offer = partial(
            self._producer.send_offsets_to_transaction, positions, metadata, CALL_SECONDS
        )
        Thread(
            target=_set_answer,
            args=(answer, offer),
            name="offsets",
            daemon=True,
        ).start()
        try:
            answer.result(HANG_SECONDS)
        except TimeoutError as error:
            self._producer = None
            raise OutcomeUnknown(
                f"{self._name}: no answer from Kafka about positions in {HANG_SECONDS:.0f} s"
            ) from error

    def _produce(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            try:
                enqueue(
                    self._producer,
                    output.topic,
                    output.value,
                    output.key,
                    output.partition,
                    headers=list(output.headers),
                )
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
