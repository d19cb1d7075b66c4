"""The webhooks under way: begun once their attempts are stored, asked for when they have ended."""

import asyncio
from typing import NamedTuple

from runtime.outbound.caller import SECONDS
from runtime.outbound.calls import CallsUnderWay
from runtime.outbound.secrets import KeyLookup
from serving.alerts.dispatch.digest_files import DigestFiles
from serving.alerts.dispatch.sender import WebhookSender
from tally.alerts.delivery.attempts import WebhookAnswer
from tally.alerts.delivery.records import FILE, WebhookMessage
from tally.errors import BadSettings


class PlacedMessage(NamedTuple):
    """A message, the partition whose deliveries it is of, and what its channel is set to.

    `secrets`: names of what signs it; `digest_as`: how the channel has its digests. Neither is
    taken from the message: its record may be written by somebody else.
    """

    partition: int
    message: WebhookMessage
    secrets: tuple[str, ...]
    digest_as: str = "webhook"


class Answered(NamedTuple):
    """A call that has ended, and how."""

    partition: int
    message: WebhookMessage
    answer: WebhookAnswer


class WebhookCalls:
    """Begins calls, and keeps what came of them until it is asked for.

    `files`: where digests become files; without it none does.
    """

    def __init__(
        self, sender: WebhookSender, keys: KeyLookup, files: DigestFiles | None = None
    ) -> None:
        self._sender = sender
        self._keys = keys
        self._files = files
        self._calls = CallsUnderWay(self._call, _place, _failed)

    def begin(self, placed: PlacedMessage) -> None:
        """Call; the message with its attempt is stored already."""
        self._calls.begin(placed)

    def under_way(self, partition: int) -> list[WebhookMessage]:
        """The partition's messages that were called and whose answers were not taken yet."""
        return [one.message for one in self._calls.under_way() if one.partition == partition]

    def urls(self) -> list[str]:
        """The addresses of all calls under way, each as often as it is called."""
        return [one.message.url for one in self._calls.under_way()]

    def take_answers(self) -> list[Answered]:
        """What came of the calls that have ended, each once."""
        ended = self._calls.take_answers()
        return [Answered(placed.partition, placed.message, answer) for placed, answer in ended]

    def close(self) -> None:
        """End the thread; calls under way are given up, and count as unanswered."""
        self._calls.close()

    async def _call(self, placed: PlacedMessage) -> WebhookAnswer:
        message = placed.message
        if not placed.secrets:
            cause = f"no channel {message.channel!a} is set; `tally channels` lists those that are"
            return WebhookAnswer(error=cause, is_refused=True)
        try:
            if message.url.startswith(FILE) and self._files is not None:
                return await self._written(placed, self._files)
            keys = self._keys(placed.secrets)
            return await self._sender.call(
                message.url, message.message_id, message.body.encode(), keys
            )
        except BadSettings as error:
            return WebhookAnswer(error=str(error), is_refused=True)

    async def _written(self, placed: PlacedMessage, files: DigestFiles) -> WebhookAnswer:
        message = placed.message
        name, content = message.url.removeprefix(FILE), message.body.encode()
        is_own = message.kind == "digest" and name.startswith(f"{message.channel}/")
        if placed.digest_as != "file" or not is_own:
            cause = f"channel {message.channel!a} is not set to write this file"
            return WebhookAnswer(error=cause, is_refused=True)
        try:
            # A folder of the network may hang as long as it likes, and calls do not wait for it.
            async with asyncio.timeout(SECONDS):
                return await asyncio.to_thread(files.write, name, message.attempts, content)
        except TimeoutError:
            return WebhookAnswer(error=f"not written in {SECONDS:.0f} s")


def _place(placed: PlacedMessage) -> tuple[int, str]:
    return placed.partition, placed.message.key


def _failed(error: Exception) -> WebhookAnswer:
    return WebhookAnswer(error=f"{type(error).__name__}: {error}"[:200])
