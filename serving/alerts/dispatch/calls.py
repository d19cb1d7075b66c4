"""The calls under way, on a thread of their own: the processor's loop waits for none of them."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from threading import Thread
from typing import NamedTuple

import structlog

from serving.alerts.dispatch.sender import WebhookSender
from tally.alerts.delivery.attempts import WebhookAnswer
from tally.alerts.delivery.records import WebhookMessage
from tally.errors import BadSettings

log = structlog.get_logger()
# By the names of secrets; raises BadSettings.
KeyLookup = Callable[[Sequence[str]], Sequence[bytes]]


class PlacedMessage(NamedTuple):
    """A message, the partition whose deliveries it is of, and names of what signs it."""

    partition: int
    message: WebhookMessage
    secrets: tuple[str, ...]


class Answered(NamedTuple):
    """A call that has ended, and how."""

    partition: int
    message: WebhookMessage
    answer: WebhookAnswer


class WebhookCalls:
    """Begins calls, and keeps what came of them until it is asked for."""

    def __init__(self, sender: WebhookSender, keys: KeyLookup) -> None:
        self._sender = sender
        self._keys = keys
        # By partition and key; the processor's thread alone looks into it.
        self._under_way: dict[tuple[int, str], WebhookMessage] = {}
        # Appended by the calls' thread, taken by the processor's.
        self._ended: deque[Answered] = deque()
        # One thread for all calls: they wait, and compute nothing.
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="webhooks", daemon=True)
        self._thread.start()

    def begin(self, placed: PlacedMessage) -> None:
        """Call; the message with its attempt is stored already."""
        self._under_way[placed.partition, placed.message.key] = placed.message
        asyncio.run_coroutine_threadsafe(self._call(placed), self._loop)

    def under_way(self, partition: int) -> list[WebhookMessage]:
        """The partition's messages that were called and whose answers were not taken yet."""
        return [message for (own, _), message in self._under_way.items() if own == partition]

    def take_answers(self) -> list[Answered]:
        """What came of the calls that have ended, each once."""
        found = []
        while self._ended:
            ended = self._ended.popleft()
            self._under_way.pop((ended.partition, ended.message.key), None)
            found.append(ended)
        return found

    def close(self) -> None:
        """End the thread; calls under way are given up, and count as unanswered."""
        asyncio.run_coroutine_threadsafe(self._cancel(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _call(self, placed: PlacedMessage) -> None:
        message = placed.message
        try:
            keys = self._keys(placed.secrets)
            answer = await self._sender.call(
                message.url, message.message_id, message.body.encode(), keys
            )
        except BadSettings as error:
            answer = WebhookAnswer(error=str(error), is_refused=True)
        # Whatever it is, the lane must not wait for ever for an answer that nobody gives.
        except Exception as error:
            log.exception("webhook not called", message=message.message_id)
            answer = WebhookAnswer(error=f"{type(error).__name__}: {error}"[:200])
        self._ended.append(Answered(placed.partition, message, answer))

    async def _cancel(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
