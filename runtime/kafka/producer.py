"""A Kafka producer whose caller waits until the brokers have acknowledged all records."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, Message

from tally.errors import SendFailed

# A producer with a full queue is polled for this long at a time.
_ROOM_SECONDS = 0.1


class BlockingProducer:
    """A producer with the outcome of the records that it was given. For one thread.

    `answer_seconds`: how long flush() waits. `stored` is called with every record that the brokers
    acknowledge; without it only failures are recorded.
    """

    def __init__(
        self,
        producer: Any,
        answer_seconds: float,
        stored: Callable[[Message], object] | None = None,
        *,
        reports_failures_only: bool = False,
    ) -> None:
        self._producer, self._answer_seconds = producer, answer_seconds
        self._on_stored = stored
        # With delivery.report.only.error the client itself frees sent records. Without it every
        # record stays in memory, up to a gigabyte of them, until its report is taken.
        self._takes_reports = not reports_failures_only
        self._failed: list[KafkaError] = []

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: str | bytes | None = None,
        partition: int = -1,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> None:
        """Block until the producer has taken the record, which is then in flight.

        Without a partition the client chooses one by the key.
        """
        enqueue(self._producer, topic, value, key, partition, self._record_result, headers=headers)
        if self._takes_reports:
            self._producer.poll(0)

    def flush(self, place: str, advice: str) -> None:
        """Block until all in-sync replicas have acknowledged everything that was sent.

        Raises SendFailed, which names the place and ends with the advice. Records without an answer
        by then stay in flight: the next call waits for them too, and reports their failure.
        """
        left = self._producer.flush(self._answer_seconds)
        failed, self._failed = self._failed, []
        if left or failed:
            reason = failed[0].str() if failed else f"no answer in {self._answer_seconds:.0f} s"
            raise SendFailed(
                f"{place}: {left + len(failed)} records were not sent ({reason}); {advice}"
            )

    def _record_result(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error)
        elif self._on_stored is not None:
            self._on_stored(message)


def enqueue(producer: Any, *record: Any, **options: Any) -> None:
    """Block until the producer has taken the record, given as arguments of its produce().

    A full queue has room again: each record in it is acknowledged or given up within
    `message.timeout.ms`.
    """
    while True:
        try:
            producer.produce(*record, **options)
            return
        # A new epoch restates more windows than fit in the client's queue: 142,463 in the real
        # year, 100,000 in the queue.
        except BufferError:
            producer.poll(_ROOM_SECONDS)
