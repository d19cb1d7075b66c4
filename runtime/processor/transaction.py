"""One transactional producer and what each of its errors means."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Thread
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from runtime.processor.moments import AFTER_OFFSETS, BEFORE_COMMIT, BEFORE_OFFSETS, BETWEEN, Moments
from runtime.processor.record import Output
from runtime.producer import hand_over
from tally.errors import Aborted, Fenced, OutcomeUnknown, TallyError

# Below the transaction time-out, so that a message is given up before the broker gives up the
# transaction.
MESSAGE_TIMEOUT_MS = 5_000
# So long a process that is frozen inside a transaction holds up everybody who reads committed
# records, and its successor.
TRANSACTION_TIMEOUT_MS = 7_000
CALL_SECONDS = 5.0
# After its own time-out a call has had its chance.
HANG_SECONDS = 2 * CALL_SECONDS

Verdict = Literal["fenced", "fatal", "abort", "retry"]


def verdict(error: KafkaError) -> Verdict:
    """What to do about an error of a transactional call.

    fenced, fatal: exit; abort: abort and redo; retry: make the same call again.
    """
    # A transaction that took too long is told in the words of a fenced one: what tells them apart,
    # KIP-588, is not in this client library (rivals.py asks the group).
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
        moments: Moments,
        deadline_seconds: float = 30.0,
    ) -> None:
        self._make = make
        self._name = name
        self._moments = moments
        self._deadline_seconds = deadline_seconds
        self._producer: Any = None

    def renew(self) -> None:
        """A new producer with the same id, which fences its predecessor.

        What the predecessor left open is aborted. Positions and state are to be read only after
        this. Never called after Fenced. Raises OutcomeUnknown when no broker answers in time: call
        again; Fenced or TallyError when the process must exit.
        """
        # What it has queued and not sent is of a transaction that does not count.
        if self._producer is not None:
            self._producer.purge()
        self._producer = None
        self._producer = self._make()
        try:
            self._until_deadline(lambda: self._producer.init_transactions(CALL_SECONDS))
        except KafkaException as error:
            raise self._final(error.args[0]) from error

    def send(
        self,
        outputs: Sequence[Output],
        positions: Sequence[TopicPartition],
        metadata_now: Callable[[], Any],
    ) -> None:
        """Commit outputs and positions together.

        metadata_now gives the group metadata of the poll after reading it again, or raises Aborted
        when they differ.

        Raises Aborted (nothing is stored), OutcomeUnknown (it may be), Fenced or TallyError (the
        process must exit).
        """
        # Before there is a transaction: a group that has changed costs no abort.
        metadata_now()
        self._guarded(self._producer.begin_transaction)
        self._produce(outputs)
        # The messages first: offsets sent beside them meet the coordinator while it is busy and
        # wait 100 ms (measured).
        self._guarded(lambda: self._producer.flush(CALL_SECONDS))
        self._moments.reach(BETWEEN)
        try:
            metadata = metadata_now()
        except Aborted:
            self._abort()
            raise
        self._moments.reach(BEFORE_OFFSETS)
        # Once only, and not waited for without end: after a broker died it ignores its time-out
        # (librdkafka issues 5456 and 5511).
        self._guarded(lambda: self._send_offsets(list(positions), metadata), repeats=False)
        self._moments.reach(AFTER_OFFSETS)
        self._moments.reach(BEFORE_COMMIT)
        self._guarded(lambda: self._producer.commit_transaction(CALL_SECONDS))

    def _send_offsets(self, positions: list[TopicPartition], metadata: Any) -> None:
        """The call, from a thread of its own.

        Raises OutcomeUnknown when it hangs: its producer is left to it, the next one fences it.
        """
        answer = Future[None]()
        offer = partial(
            self._producer.send_offsets_to_transaction, positions, metadata, CALL_SECONDS
        )
        Thread(
            target=_answer,
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
                hand_over(
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
                self._settle(error)

    def _guarded(self, call: Callable[..., Any], repeats: bool = True) -> None:
        """The call, made again while that is the right answer to its error."""
        try:
            self._until_deadline(call, repeats)
        except KafkaException as error:
            self._settle(error)

    def _settle(self, error: KafkaException) -> None:
        problem = error.args[0]
        if verdict(problem) != "abort":
            raise self._final(problem) from error
        self._abort()
        raise Aborted(f"{self._name}: transaction aborted: {problem.str()}") from error

    def _abort(self) -> None:
        # An abort before the brokers know the transaction's partitions is fatal in librdkafka: let
        # the messages arrive first.
        try:
            self._producer.flush(CALL_SECONDS)
            self._until_deadline(lambda: self._producer.abort_transaction(CALL_SECONDS))
        except KafkaException as error:
            raise self._final(error.args[0]) from error

    def _until_deadline(self, call: Callable[..., Any], repeats: bool = True) -> None:
        deadline = time.monotonic() + (self._deadline_seconds if repeats else 0.0)
        while True:
            try:
                # Again the same call: it goes on with what is under way, and sends nothing twice.
                call()
                return
            except KafkaException as error:
                if verdict(error.args[0]) != "retry":
                    raise
                # Nor is it aborted: an end that is still under way can strike the next transaction
                # of the same producer (librdkafka issue 5423).
                if time.monotonic() >= deadline:
                    raise OutcomeUnknown(
                        f"{self._name}: no answer from Kafka in time: {error.args[0].str()}"
                    ) from error

    def _final(self, problem: KafkaError) -> TallyError:
        if verdict(problem) == "fenced":
            return Fenced(
                f"{self._name}: a newer instance has taken over ({problem.str()});"
                " this one must exit"
            )
        return TallyError(
            f"{self._name}: {problem.str()}; start the process again,"
            " it goes on from what Kafka has committed"
        )


def _answer(answer: Future[None], call: Callable[[], None]) -> None:
    """The call's end, or what it raises, is the answer."""
    try:
        call()
        answer.set_result(None)
    except KafkaException as error:
        answer.set_exception(error)
    finally:
        # Without effect once there is an answer; any other error is shown by this thread and ends
        # the wait.
        answer.cancel()
