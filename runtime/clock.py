"""The brokers' clock: the one that stamps arrivals.

So it is the only one that may say up to when everything has arrived.
"""

from datetime import datetime

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, Message

from runtime.connect import kafka_producer
from tally.errors import TallyError
from tally.instants import from_millis
from tally.settings import Settings

TOPIC = "clock"
TIMEOUT_SECONDS = 30.0


def brokers_now(settings: Settings) -> datetime:
    """An instant that has come by the clock of each broker that leads a partition of `clock`.

    Each of them stamps a probe record; the earliest stamp. Raises TallyError when one does not
    answer in time.
    """
    producer = kafka_producer(settings, {"linger.ms": 0})
    stamps: list[tuple[int, int]] = []
    failed: list[KafkaError] = []

    def keep(error: KafkaError | None, message: Message) -> None:
        if error is None:
            stamps.append(message.timestamp())
        else:
            failed.append(error)

    partitions = producer.list_topics(TOPIC, TIMEOUT_SECONDS).topics[TOPIC].partitions
    for number in partitions:
        producer.produce(TOPIC, b"", partition=number, on_delivery=keep)
    left = producer.flush(TIMEOUT_SECONDS)
    if failed or left or not stamps:
        raise TallyError(
            f"topic {TOPIC}: {failed[0].str() if failed else 'no answer'};"
            " start Kafka with `tally up kafka`"
        )
    if any(kind != TIMESTAMP_LOG_APPEND_TIME for kind, _ in stamps):
        raise TallyError(
            f"topic {TOPIC} has not the brokers' time in its records;"
            " `tally up kafka` sets message.timestamp.type"
        )
    return from_millis(min(millis for _, millis in stamps))
