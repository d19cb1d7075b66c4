"""Messages to Kafka with an awaitable acknowledgement, without a wait in the event loop."""

import asyncio
from collections.abc import Sequence
from threading import Event, Lock, Thread
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from tally.errors import TallyError

_POLL_SECONDS = 0.1


class Busy(TallyError):
    """Raised when too much is under way; nothing of the request was stored."""


class NotStored(TallyError):
    """Raised when the brokers did not acknowledge everything; an unknown part of the request was stored."""


class Outbox:
    """One idempotent producer for all requests; acknowledgements come from a thread of its own."""

    def __init__(self, producer: Any, most_under_way: int) -> None:
        self._producer = producer
        self._most_under_way = most_under_way
        self._under_way = 0
        self._lock = Lock()
        self._closed = Event()
        self.fatal: str | None = None
        self._poller = Thread(target=self._poll, name="delivery-reports", daemon=True)
        self._poller.start()

    async def store(self, topic: str, messages: Sequence[tuple[str, bytes]]) -> None:
        """Return once all (key, value) messages are acknowledged by all in-sync replicas. Raises Busy or NotStored."""
        self._take_room(len(messages))
        request = _Request(len(messages), asyncio.get_running_loop())
        for number, (key, value) in enumerate(messages):
            try:
                self._producer.produce(topic, value, key, on_delivery=lambda error, _message: self._acknowledged(request, error))
            except (BufferError, KafkaException) as error:
                # The messages before it are on their way, so the request ends with them, as a failure.
                request.fail(str(error))
                for _ in messages[number:]:
                    self._acknowledged(request, None)
                break
        await request.done
        if request.failure is not None:
            raise NotStored(f"Kafka did not take the messages: {request.failure}")

    def close(self, seconds: float) -> int:
        """Wait for what is under way; the number of messages left without an answer."""
        left = int(self._producer.flush(seconds))
        self._closed.set()
        self._poller.join()
        return left

    def _take_room(self, count: int) -> None:
        with self._lock:
            if self._under_way and self._under_way + count > self._most_under_way:
                raise Busy(f"{self._under_way:,} messages are under way")
            self._under_way += count

    def _acknowledged(self, request: "_Request", error: KafkaError | None) -> None:
        with self._lock:
            self._under_way -= 1
        if error is not None:
            request.fail(error.str())
            if error.fatal():
                self.fatal = error.str()
        request.one_done()

    def _poll(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(_POLL_SECONDS)


class _Request:
    """The acknowledgements of one request, counted in the poller's thread; the event loop is woken once."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self._left = count
        self._lock = Lock()
        self._loop = loop
        self.done: asyncio.Future[None] = loop.create_future()
        self.failure: str | None = None

    def fail(self, reason: str) -> None:
        self.failure = reason

    def one_done(self) -> None:
        """Count one acknowledged or failed message; the last one wakes who waits."""
        with self._lock:
            self._left -= 1
            if self._left:
                return
        self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        # A client that has hung up has cancelled the future.
        if not self.done.done():
            self.done.set_result(None)


def is_reachable(producer: Any, topic: str, seconds: float) -> tuple[bool, str]:
    """Whether the brokers answer and have the topic, and a line about it."""
    try:
        known = producer.list_topics(topic, seconds).topics[topic]
    except KafkaException as error:
        return False, str(error.args[0].str())
    return known.error is None, "reachable" if known.error is None else str(known.error.str())
