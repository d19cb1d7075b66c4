"""Sends messages to Kafka without blocking the event loop, and detects lost brokers."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from tally.errors import Busy, NotStored

_POLL_SECONDS = 0.1
_REQUEST_SECONDS = 3.0
# Messages produced before the event loop gets its turn; they take a few milliseconds.
_MESSAGES_PER_TURN = 500
# The assumed size of a message until the first one is sent: that of an ordinary receipt.
_ASSUMED_BYTES = 1000
# How often each client is asked whether it reaches a broker.
_PROBE_SECONDS = 15.0
# A single look may meet brokers that are just coming back.
_FAILED_CHECKS = 2


class InFlightLimit(NamedTuple):
    """The most messages and bytes under way at a time; a request alone always fits."""

    messages: int
    bytes: int


class AsyncProducer:
    """One idempotent producer for all requests; its own thread polls for acknowledgements."""

    def __init__(
        self, make_producer: Callable[[Callable[[KafkaError], None]], Any], room: InFlightLimit
    ) -> None:
        self._limit = room
        self._messages = self._bytes = 0
        self._sent_messages, self._sent_bytes = 1, _ASSUMED_BYTES
        self._lock = Lock()
        self._closed = Event()
        self.fatal: str | None = None
        self._producer = make_producer(self.record_error)
        self._poller = Thread(target=self._poll, name="delivery-reports", daemon=True)
        self._poller.start()

    async def store(self, topic: str, messages: Sequence[tuple[str, bytes]]) -> None:
        """Return once in-sync replicas have all (key, value) messages. Raises Busy, NotStored."""
        size = sum(len(value) for _, value in messages)
        self._reserve(len(messages), size)
        request = _Request(len(messages), asyncio.get_running_loop())
        try:
            await self._produce(topic, messages, request)
            await request.done
        finally:
            with self._lock:
                self._bytes -= size
        if request.failure is not None:
            raise NotStored(f"Kafka did not take the messages: {request.failure}")

    async def _produce(
        self, topic: str, messages: Sequence[tuple[str, bytes]], request: "_Request"
    ) -> None:
        report = partial(self._count_acknowledgement, request)
        for number, (key, value) in enumerate(messages):
            if number % _MESSAGES_PER_TURN == _MESSAGES_PER_TURN - 1:
                await asyncio.sleep(0)
            try:
                self._producer.produce(topic, value, key, on_delivery=report)
            except (BufferError, KafkaException) as error:
                # Earlier messages are already in flight: the request ends with them, and fails.
                request.failure = self._failure_reason(error)
                for _ in messages[number:]:
                    report(None)
                break

    def record_error(self, error: KafkaError) -> None:
        """Remember an error after which nothing can be sent; the client recovers from others."""
        # The error of a delivery report is made from the code alone, so its fatal() is False.
        if error.fatal() or error.code() == KafkaError._FATAL:
            self.fatal = error.str()

    def reaches_brokers(self) -> bool:
        """Whether any broker answers the producer within seconds; blocks the calling thread."""
        try:
            self._producer.list_topics(timeout=_REQUEST_SECONDS)
        except KafkaException:
            return False
        return True

    def mean_message_bytes(self) -> float:
        """Mean size of the messages sent so far."""
        return self._sent_bytes / self._sent_messages

    def close(self, seconds: float) -> int:
        """Wait at most `seconds` for messages in flight; returns how many stay unacknowledged."""
        left = int(self._producer.flush(seconds))
        self._closed.set()
        self._poller.join()
        return left

    def _reserve(self, messages: int, size: int) -> None:
        with self._lock:
            count, total = self._messages + messages, self._bytes + size
            is_full = count > self._limit.messages or total > self._limit.bytes
            if self._messages and is_full:
                raise Busy(f"{self._messages:,} messages ({self._bytes:,} bytes) are under way")
            self._messages, self._bytes = count, total
            self._sent_messages += messages
            self._sent_bytes += size

    def _failure_reason(self, error: BufferError | KafkaException) -> str:
        if isinstance(error, BufferError):
            return str(error)
        self.record_error(error.args[0])
        return str(error.args[0].str())

    def _count_acknowledgement(
        self, request: "_Request", error: KafkaError | None, _message: object = None
    ) -> None:
        with self._lock:
            self._messages -= 1
        if error is not None:
            request.failure = error.str()
            self.record_error(error)
        request.count_done()

    def _poll(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(_POLL_SECONDS)


class _Request:
    """One request's acknowledgements, counted in the poller's thread; the last wakes the loop."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self._left = count
        self._lock = Lock()
        self._loop = loop
        self.done: asyncio.Future[None] = loop.create_future()
        self.failure: str | None = None

    def count_done(self) -> None:
        """Count one acknowledged or failed message; the last one wakes the waiting request."""
        with self._lock:
            self._left -= 1
            if self._left:
                return
        self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        # A client that has hung up has cancelled the future.
        if not self.done.done():
            self.done.set_result(None)


class BrokerConnectivity:
    """Asks each Kafka client of the process whether it reaches a broker.

    One whose metadata named no broker at all never asks again (runtime/connect.py): the gateway
    would store nothing until the next restart, so the process ends by itself.
    """

    def __init__(
        self, client_probes: Sequence[Callable[[], bool]], brokers_answer: Callable[[], bool]
    ) -> None:
        self._client_probes, self._brokers_answer = client_probes, brokers_answer
        self._failed_checks = 0

    @property
    def is_lost(self) -> bool:
        """Whether at two looks in a row a client reached no broker while a new client did."""
        return self._failed_checks >= _FAILED_CHECKS

    def check(self) -> None:
        """Look once; meant for one thread only."""
        is_reached = all(reaches() for reaches in self._client_probes)
        is_cut_off = not is_reached and self._brokers_answer()
        self._failed_checks = self._failed_checks + 1 if is_cut_off else 0

    def run(self, ended: Event) -> None:
        """Look at intervals until `ended` is set."""
        while not ended.wait(_PROBE_SECONDS):
            self.check()
