"""One attempt: a signed POST to an address that was looked at, and what was answered."""

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from serving.alerts.dispatch.addresses import (
    AllowedNetwork,
    CallableAddress,
    callable_addresses,
    checked_url,
)
from tally.alerts.delivery.attempts import WebhookAnswer
from tally.alerts.delivery.signing import webhook_headers
from tally.errors import AddressRefused

SECONDS = 15.0
# Of what a receiver says beside its status, so much is read: that it may end its answer.
MOST_ANSWER_BYTES = 4_096
# Of a host's addresses so many are tried, while none takes the connection.
_MOST_ADDRESSES = 3
_NO_POOL = httpx.Limits(max_keepalive_connections=0)


@dataclass(frozen=True)
class WebhookSender:
    """Calls webhooks; `now`: seconds since 1970, for the time of the attempt that is signed."""

    allowed: Sequence[AllowedNetwork] = ()
    now: Callable[[], float] = time.time
    seconds: float = SECONDS
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)

    async def call(
        self, url: str, message_id: str, body: bytes, keys: Sequence[bytes]
    ) -> WebhookAnswer:
        """What came of one call: its status, or why there is none.

        Whatever the other side does, it takes `seconds` at most.
        """
        try:
            # Of the whole: what a receiver sends byte by byte would never be too slow for a read.
            async with asyncio.timeout(self.seconds):
                target = checked_url(url)
                addresses = await callable_addresses(target, self.allowed)
                headers = webhook_headers(keys, message_id, int(self.now()), body)
                return await self._first_to_connect(target, addresses, headers, body)
        except AddressRefused as error:
            return WebhookAnswer(error=str(error), is_refused=True)
        except TimeoutError:
            return WebhookAnswer(error=f"no answer in {self.seconds:.0f} s")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            return WebhookAnswer(error=f"{type(error).__name__}: {error}"[:200])

    async def _first_to_connect(
        self,
        url: httpx.URL,
        addresses: Sequence[CallableAddress],
        headers: Mapping[str, str],
        body: bytes,
    ) -> WebhookAnswer:
        *others, last = addresses[:_MOST_ADDRESSES]
        for address in others:
            try:
                return await self._post(url, address, headers, body)
            # Nothing was sent; whatever else goes wrong, something may have been.
            except httpx.ConnectError:
                continue
        return await self._post(url, last, headers, body)

    async def _post(
        self, url: httpx.URL, address: CallableAddress, headers: Mapping[str, str], body: bytes
    ) -> WebhookAnswer:
        # A client for each call: connections are pooled by address, and hosts share addresses.
        async with (
            httpx.AsyncClient(
                verify=self.tls, trust_env=False, timeout=self.seconds, limits=_NO_POOL
            ) as client,
            client.stream(
                "POST",
                url.copy_with(host=str(address)),
                content=body,
                # As it stands in the URL, with its port; the certificate has to be the host's too.
                headers={
                    **headers,
                    "host": url.netloc.decode("ascii"),
                    "user-agent": "tally",
                    "accept-encoding": "identity",
                },
                extensions={"sni_hostname": url.raw_host.decode("ascii")},
            ) as response,
        ):
            return await self._read(response)

    async def _read(self, response: httpx.Response) -> WebhookAnswer:
        read = 0
        async for piece in response.aiter_raw(MOST_ANSWER_BYTES):
            read += len(piece)
            # The rest is not waited for: the status has said it.
            if read >= MOST_ANSWER_BYTES:
                break
        asked = retry_after(response.headers.get("retry-after", ""), self.now())
        return WebhookAnswer(status=response.status_code, retry_after=asked)


def retry_after(text: str, now: float) -> float | None:
    """The seconds from now that a header Retry-After asks for, as a number or an instant.

    None without it, and for what is neither.
    """
    told = text.strip()
    if told.isascii() and told.isdigit():
        # More digits are of no time that anybody waits for.
        return float(told[:9]) if len(told) < 10 else None
    try:
        instant = parsedate_to_datetime(told)
    except (ValueError, TypeError, OverflowError):
        return None
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.fromtimestamp(now, UTC)).total_seconds())
