"""Producers for tests that send a few records and go on."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Producer

from runtime.connect import kafka_producer
from tally.settings import Settings


def connected_producer(settings: Settings, overrides: Mapping[str, Any] | None = None) -> Producer:
    """The product's producer, with its connection made.

    A new one asks for its id before it has a connection, and then again after half a second: most
    of the time of a test that sends one record.
    """
    producer = kafka_producer(settings, overrides)
    producer.list_topics(timeout=30)
    return producer
