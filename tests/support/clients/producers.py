"""Producers for tests that send a few records and go on."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Producer

from runtime.connect import kafka_producer
from tally.config.settings import Settings


def connected_producer(settings: Settings, overrides: Mapping[str, Any] | None = None) -> Producer:
    """The product's producer, with its connection made.

    A new one asks for its id before it has a connection, and then again after half a second: most
    of the time of a test that sends one record.
    """
    producer = kafka_producer(settings, overrides)
    producer.list_topics(timeout=30)
    return producer


class PlacedMessage(NamedTuple):
    """A message that arrives at this instant, seconds since 1970 (UTC), on a partition."""

    topic: str
    partition: int
    at: float
    body: bytes


def produced(settings: Settings, messages: Iterable[PlacedMessage]) -> int:
    """How many messages were stored, all of them; of topics that take the time from who sends."""
    producer, count = connected_producer(settings), 0
    for one in messages:
        while True:
            try:
                producer.produce(
                    one.topic, one.body, partition=one.partition, timestamp=int(1000 * one.at)
                )
                break
            # Its buffer is full: what lies there goes out first.
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        count += 1
    assert producer.flush(300) == 0
    return count
