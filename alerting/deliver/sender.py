"""One delivery attempt: a signed POST to a checked address, and its answer."""

import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from alerting.deliver.state.attempts import WebhookAnswer
from runtime.outbound.addresses import AllowedNetwork, HostLookups
from runtime.outbound.caller import SECONDS, OutboundCaller, OutboundRequest
from runtime.outbound.signing import webhook_headers


@dataclass(frozen=True)
class WebhookSender:
    """Calls webhooks; `now`: seconds since 1970 (UTC), the signed time of the attempt."""

    allowed: Sequence[AllowedNetwork] = ()
    now: Callable[[], float] = time.time
    seconds: float = SECONDS
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    lookups: HostLookups = field(default_factory=HostLookups)

    async def call(
        self, url: str, message_id: str, body: bytes, keys: Sequence[bytes]
    ) -> WebhookAnswer:
        """Make one call and return its answer: the status, or the reason why there is none.

        It takes at most `seconds`, however the receiver behaves.
        """
        caller = OutboundCaller(self.allowed, self.now, self.seconds, self.tls, self.lookups)
        headers = webhook_headers(keys, message_id, int(self.now()), body)
        answer = await caller.call(OutboundRequest("POST", url, headers, body))
        return WebhookAnswer(
            status=answer.status,
            retry_after=answer.retry_after,
            error=answer.error,
            is_refused=answer.is_refused,
            is_unsent=answer.is_unsent,
        )
