"""Webhook calls in flight: they start once their attempts are stored; answers are polled."""

from typing import NamedTuple

from alerting.deliver.sender import WebhookSender
from alerting.deliver.state.attempts import WebhookAnswer
from alerting.deliver.state.records import WebhookMessage
from runtime.outbound.calls import PendingCalls
from runtime.outbound.secrets import KeyLookup
from tally.errors import BadSettings


class OutboundMessage(NamedTuple):
    """A message, the partition of its delivery, and the names of the keys that sign it.

    They are the channel's, because others may write the message's record.
    """

    partition: int
    message: WebhookMessage
    secrets: tuple[str, ...]


class CallResult(NamedTuple):
    """A call that has ended, and its answer."""

    partition: int
    message: WebhookMessage
    answer: WebhookAnswer


class WebhookCalls:
    """Starts calls and keeps their answers until they are taken."""

    def __init__(self, sender: WebhookSender, keys: KeyLookup) -> None:
        self._sender = sender
        self._keys = keys
        self._calls = PendingCalls(self._call, _call_key, _failure_answer)

    def begin(self, placed: OutboundMessage) -> None:
        """Start the call of a message whose attempt is stored already."""
        self._calls.begin(placed)

    def in_flight(self, partition: int) -> list[WebhookMessage]:
        """The partition's messages whose calls were started and whose answers are not taken yet."""
        return [
            placed.message
            for placed in self._calls.pending_requests()
            if placed.partition == partition
        ]

    def urls(self) -> list[str]:
        """The addresses of all calls in flight, one entry per call."""
        return [placed.message.url for placed in self._calls.pending_requests()]

    def take_answers(self) -> list[CallResult]:
        """The answers of the calls that have ended; each is returned once."""
        ended = self._calls.take_answers()
        return [CallResult(placed.partition, placed.message, answer) for placed, answer in ended]

    def close(self) -> None:
        """End the thread; calls in flight are abandoned and count as unanswered."""
        self._calls.close()

    async def _call(self, placed: OutboundMessage) -> WebhookAnswer:
        message = placed.message
        if not placed.secrets:
            cause = f"no channel {message.channel!a} is set; `tally channels` lists those that are"
            return WebhookAnswer(error=cause, is_refused=True)
        try:
            keys = self._keys(placed.secrets)
            return await self._sender.call(
                message.url, message.message_id, message.body.encode(), keys
            )
        except BadSettings as error:
            return WebhookAnswer(error=str(error), is_refused=True)


def _call_key(placed: OutboundMessage) -> tuple[int, str]:
    return placed.partition, placed.message.key


def _failure_answer(error: Exception) -> WebhookAnswer:
    return WebhookAnswer(error=f"{type(error).__name__}: {error}"[:200])
