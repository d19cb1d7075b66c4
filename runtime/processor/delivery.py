"""The three guarantees: the order in which outputs are sent and positions are kept."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from runtime.processor.faults import AFTER_COMMIT, BEFORE_COMMIT, BETWEEN, Faults
from runtime.processor.record import Output
from runtime.processor.transaction import Aborted, TransactionalProducer, produce
from tally.errors import TallyError

_FLUSH_SECONDS = 30.0
# Offsets to read next, each with the bookmark beside it.
Positions = Sequence[TopicPartition]

# The group metadata of the poll, after it was read again and found equal; raises Aborted otherwise.
MetadataNow = Callable[[], Any]


class Delivery(Protocol):
    """Stores outputs and positions together."""

    def renew(self) -> None:
        """Make the producer (anew); positions are read after this, never before.

        Raises OutcomeUnknown without an answer.
        """

    def deliver(
        self, outputs: Sequence[Output], positions: Positions, metadata_now: MetadataNow
    ) -> None:
        """Store both. Raises Aborted, OutcomeUnknown, Fenced or TallyError."""


class ExactlyOnce:
    """Outputs and positions in one transaction.

    It is open only here: never across a poll, so never across a rebalance.
    """

    def __init__(self, producer: TransactionalProducer, faults: Faults) -> None:
        self._producer = producer
        self._faults = faults

    def renew(self) -> None:
        """A new producer under the same id; aborts what the last one left open."""
        self._producer.renew()

    def deliver(
        self, outputs: Sequence[Output], positions: Positions, metadata_now: MetadataNow
    ) -> None:
        """Commit outputs and positions together."""
        self._producer.send(outputs, positions, metadata_now)
        self._faults.reach(AFTER_COMMIT)


class Plain:
    """Outputs and positions one after the other, by an idempotent producer."""

    def __init__(self, producer: Any, consumer: Any, faults: Faults, positions_first: bool) -> None:
        self._producer = producer
        self._consumer = consumer
        self._faults = faults
        self._positions_first = positions_first
        self._refused: str | None = None

    def renew(self) -> None:
        """Nothing to make anew: no transaction is ever open."""

    def deliver(
        self, outputs: Sequence[Output], positions: Positions, _metadata_now: MetadataNow
    ) -> None:
        """At most once: positions first, a crash between loses outputs.

        At least once: outputs first, a crash repeats them.
        """
        steps: list[Callable[[], None]] = [
            lambda: self._send(outputs),
            lambda: self._keep(positions),
        ]
        if self._positions_first:
            steps.reverse()
        steps[0]()
        self._faults.reach(BETWEEN)
        steps[1]()

    def _send(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            produce(self._producer, output, on_delivery=self._delivered)
        under_way = self._producer.flush(_FLUSH_SECONDS)
        if self._refused or under_way:
            raise TallyError(
                f"Kafka did not take {under_way} records: {self._refused or 'no answer'};"
                " start the process again"
            )

    def _keep(self, positions: Positions) -> None:
        self._faults.reach(BEFORE_COMMIT)
        try:
            self._consumer.commit(offsets=list(positions), asynchronous=False)
        except KafkaException as error:
            raise Aborted(f"positions not kept: {error.args[0].str()}") from error
        self._faults.reach(AFTER_COMMIT)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._refused = error.str()
