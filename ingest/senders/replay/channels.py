"""The ways in which a replay sends its messages: directly to the raw topic, or by the gateway."""

import time
from http.client import HTTPConnection
from typing import Protocol

from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_exponential

from runtime.connect import kafka_producer
from runtime.kafka.producer import BlockingProducer
from tally.config.settings import Settings
from tally.errors import TallyError

_FLUSH_SECONDS = 120.0
_RETRY_SECONDS = 60.0
# The gateway takes messages of at most 64 stores and 64 days at once, and 5 MiB: 64 lines always
# fit.
_MAX_LINES, _MAX_BYTES = 64, 2_000_000
_TRY_LATER = (429, 503)
_ANSWERED = (202, 422)


class Channel(Protocol):
    """Takes messages in order; after settle() each is stored or was refused for good."""

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
    """Sends to the gateway, as NDJSON requests of many lines; refused lines are not sent again."""

    def __init__(self, settings: Settings, path: str) -> None:
        self._path = path
        self._address = settings.gateway
        self._lines: list[bytes] = []
        self._bytes = 0

    def send(self, _key: str, value: bytes) -> None:
        """Add one line to the next request."""
        self._lines.append(value)
        self._bytes += len(value)
        if len(self._lines) >= _MAX_LINES or self._bytes >= _MAX_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send the waiting lines and return when the gateway has taken or refused them.

        It answers 202 (or 422: nothing good among them).
        """
        if self._lines:
            self._post(b"\n".join(self._lines))
            self._lines, self._bytes = [], 0

    # Sending again is always safe: a message that was stored already is a duplicate.
    @retry(
        retry=retry_if_exception_type(OSError),
        stop=stop_after_delay(_RETRY_SECONDS),
        wait=wait_exponential(max=5),
        reraise=True,
    )
    def _post(self, body: bytes) -> None:
        connection = HTTPConnection(self._address, timeout=_RETRY_SECONDS)
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/x-ndjson"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status in _TRY_LATER:
                time.sleep(float(answer.headers.get("Retry-After", "1")))
                raise ConnectionError(f"gateway at {self._address} answered {answer.status}")
            if answer.status not in _ANSWERED:
                raise TallyError(
                    f"gateway at {self._address} answered {answer.status}:"
                    f" {text[:200].decode('utf-8', 'replace')}"
                )
        finally:
            connection.close()
