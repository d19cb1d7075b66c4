"""The brokers' clock, which stamps arrivals: no other one tells until when all has arrived."""

from datetime import datetime

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

from runtime.connect import kafka_producer
from runtime.kafka.producer import BlockingProducer
from runtime.kafka.topics import partition_numbers
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.time.instants import from_millis

TOPIC = "clock"
TIMEOUT_SECONDS = 30.0


def read_broker_time(settings: Settings) -> datetime:
    """An instant that has passed on the clock of every broker that leads a partition of `clock`.

    Each of them stamps a probe record; the earliest stamp is returned. Raises TallyError when one
    does not answer in time.
    """
    # Without idempotence, as a repeated probe does no harm: a producer with it may wait for 0.5 s
    # before it asks for its id a second time.
    producer = kafka_producer(settings, {"linger.ms": 0, "enable.idempotence": False})
    stamps: list[tuple[int, int]] = []
    sender = BlockingProducer(
        producer, TIMEOUT_SECONDS, lambda message: stamps.append(message.timestamp())
    )
    # A partition's leader stamps its records, and each broker has its own clock.
    for number in partition_numbers(producer, TOPIC, TIMEOUT_SECONDS):
        sender.send(TOPIC, b"", partition=number)
    sender.flush(f"topic {TOPIC}", "start Kafka with `tally up kafka`")
    if any(kind != TIMESTAMP_LOG_APPEND_TIME for kind, _ in stamps):
        raise TallyError(
            f"topic {TOPIC} has not the brokers' time in its records;"
            " `tally up kafka` sets message.timestamp.type"
        )
    # The slowest clock decides: all others have passed its instant.
    return from_millis(min(millis for _, millis in stamps))
