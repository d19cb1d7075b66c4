"""The ways in which messages are sent one by one: directly to a raw topic, or by the gateway."""

from typing import Protocol

from ingest.senders.gateway_client import GatewayClient, batch_lines
from runtime.connect import kafka_producer
from runtime.kafka.producer import BlockingProducer
from tally.config.settings import Settings

_FLUSH_SECONDS, _FLUSH_LINES = 120.0, 64


class Channel(Protocol):
    """Takes messages in order; after flush() each is stored or was refused for good."""

    def send(self, key: str, value: bytes) -> None:
        """Hand over one message; it may still be in flight afterwards."""

    def flush(self) -> None:
        """Wait until every message is acknowledged. Raises TallyError if one cannot be."""


class KafkaChannel:
    """Sends to the raw topic, keyed by store so that a store's messages keep their order."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._topic = topic
        buffer = {"queue.buffering.max.messages": 100_000, "linger.ms": 20, "batch.size": 500_000}
        self._sender = BlockingProducer(kafka_producer(settings, buffer), _FLUSH_SECONDS)
        self._address = settings.kafka

    def send(self, key: str, value: bytes) -> None:
        """Hand one message to the producer; waits while its buffer is full."""
        self._sender.send(self._topic, value, key)

    def flush(self) -> None:
        """Block until the brokers have acknowledged everything; else raise SendFailed."""
        self._sender.flush(
            f"replay to Kafka at {self._address}",
            "start it with `tally up kafka`, then replay --resume",
        )


class GatewayChannel:
    """Sends to the gateway, many lines in a request; refused lines are not sent again."""

    def __init__(self, gateway: GatewayClient, path: str) -> None:
        self._gateway, self._path = gateway, path
        self._lines: list[bytes] = []

    def send(self, _key: str, value: bytes) -> None:
        """Add one line to the next request."""
        self._lines.append(value)
        if len(self._lines) >= _FLUSH_LINES:
            self.flush()

    def flush(self) -> None:
        """Send the waiting lines and return when the gateway has taken or refused each of them.

        Raises GatewayUnavailable, and BodyRefused when it has read none of a request.
        """
        for lines in batch_lines(self._lines):
            self._gateway.post(self._path, b"\n".join(lines))
        self._lines = []
