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

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from confluent_kafka import KafkaException, TopicPartition

from runtime.kafka.producer import BlockingProducer
from runtime.processor.commit.failpoints import AFTER_COMMIT, BEFORE_COMMIT, BETWEEN, Failpoints
from runtime.processor.commit.record import Output
from runtime.processor.commit.transaction import TransactionalProducer
from tally.errors import TransactionAborted

_FLUSH_SECONDS = 30.0
# Offsets to read next, each with the position metadata beside it.
Positions = Sequence[TopicPartition]

# The group metadata of the poll, after it was read again and found equal; raises TransactionAborted
# otherwise.
CheckMetadata = Callable[[], Any]


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


class ExactlyOnce:
    """Outputs and positions in one transaction.

    The transaction is open only here: never across a poll, and thus never across a rebalance.
    """

    def __init__(self, producer: TransactionalProducer, failpoints: Failpoints) -> None:
        self._producer = producer
        self._failpoints = failpoints

    def renew(self) -> None:
        """Make a new producer under the same id; it aborts the last one's open transaction."""
        self._producer.renew()

    def deliver(
        self, outputs: Sequence[Output], positions: Positions, metadata_now: CheckMetadata
    ) -> None:
        """Commit outputs and positions together."""
        self._producer.send(outputs, positions, metadata_now)
        self._failpoints.hit(AFTER_COMMIT)


class SequentialDelivery:
    """Outputs and positions one after the other, by an idempotent producer."""

    def __init__(
        self, producer: Any, consumer: Any, failpoints: Failpoints, positions_first: bool
    ) -> None:
        self._sender = BlockingProducer(producer, _FLUSH_SECONDS)
        self._consumer = consumer
        self._failpoints = failpoints
        self._positions_first = positions_first

    def renew(self) -> None:
        """Do nothing, since no transaction is ever open."""

    def deliver(
        self, outputs: Sequence[Output], positions: Positions, _metadata_now: CheckMetadata
    ) -> None:
        """Store outputs and positions in the configured order.

        At most once: positions first, and a crash in between loses outputs. At least once: outputs
        first, and a crash in between repeats them.
        """
        steps: list[Callable[[], None]] = [
            lambda: self._send(outputs),
            lambda: self._commit_positions(positions),
        ]
        if self._positions_first:
            steps.reverse()
        steps[0]()
        self._failpoints.hit(BETWEEN)
        steps[1]()

    def _send(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            self._sender.send(
                output.topic, output.value, output.key, output.partition, list(output.headers)
            )
        self._sender.flush("Kafka", "start the process again")

    def _commit_positions(self, positions: Positions) -> None:
        self._failpoints.hit(BEFORE_COMMIT)
        try:
            self._consumer.commit(offsets=list(positions), asynchronous=False)
        except KafkaException as error:
            raise TransactionAborted(f"positions not kept: {error.args[0].str()}") from error
        self._failpoints.hit(AFTER_COMMIT)
