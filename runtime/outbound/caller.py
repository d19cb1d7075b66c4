"""One call to an address that was looked at, and what was answered."""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from runtime.outbound.addresses import (
    AllowedNetwork,
    CallableAddress,
    HostLookups,
    callable_addresses,
    checked_url,
)
from tally.errors import AddressRefused

SECONDS = 15.0
# Of what is said beside a status, so much is read: that the other side may end its answer.
MOST_ANSWER_BYTES = 4_096
# Of a call's time the share that a body may use up; the rest is for taking the status out.
_BODY_SHARE = 0.9
# Of a host's addresses so many are tried, while none takes the connection.
_MOST_ADDRESSES = 3
_NO_POOL = httpx.Limits(max_keepalive_connections=0)


@dataclass(frozen=True)
class OutboundRequest:
    """What is asked of an address."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class OutboundAnswer:
    """A status and the begin of its body, or none and why.

    `retry_after`: seconds that the other side asks for; `is_refused`: nobody was called at all, for
    the address is none that may be called; `is_unsent`: nobody has taken the connection; `is_cut`:
    the status came, and its body did not come whole.
    """

    status: int | None = None
    retry_after: float | None = None
    body: bytes = b""
    error: str = ""
    is_refused: bool = False
    is_unsent: bool = False
    is_cut: bool = False


@dataclass(frozen=True)
class CheckedCaller:
    """Calls addresses that may be called; `now`: seconds since 1970, `seconds`: of a whole call."""

    allowed: Sequence[AllowedNetwork] = ()
    now: Callable[[], float] = time.time
    seconds: float = SECONDS
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    lookups: HostLookups = field(default_factory=HostLookups)

    async def call(self, asked: OutboundRequest) -> OutboundAnswer:
        """What came of one call.

        Whatever the other side does, it takes `seconds` at most.
        """
        until = asyncio.get_running_loop().time() + _BODY_SHARE * self.seconds
        try:
            # Of the whole: what is sent byte by byte would never be too slow for a read.
            async with asyncio.timeout(self.seconds):
                target = checked_url(asked.url)
                addresses = await callable_addresses(target, self.allowed, self.lookups)
                return await self._first_to_connect(target, addresses, asked, until)
        except AddressRefused as error:
            return OutboundAnswer(error=str(error), is_refused=True)
        except TimeoutError:
            return OutboundAnswer(error=f"no answer in {self.seconds:.0f} s")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            told = f"{type(error).__name__}: {error}"[:200]
            # Whoever has not taken the connection has certainly taken nothing.
            is_unsent = isinstance(error, httpx.ConnectError | socket.gaierror)
            return OutboundAnswer(error=told, is_unsent=is_unsent)

    async def _first_to_connect(
        self,
        url: httpx.URL,
        addresses: Sequence[CallableAddress],
        asked: OutboundRequest,
        until: float,
    ) -> OutboundAnswer:
        *others, last = addresses[:_MOST_ADDRESSES]
        for address in others:
            try:
                return await self._send(url, address, asked, until)
            # Nothing was sent; whatever else goes wrong, something may have been.
            except httpx.ConnectError:
                continue
        return await self._send(url, last, asked, until)

    async def _send(
        self, url: httpx.URL, address: CallableAddress, asked: OutboundRequest, until: float
    ) -> OutboundAnswer:
        # A client for each call: connections are pooled by address, and hosts share addresses.
        async with (
            httpx.AsyncClient(
                verify=self.tls, trust_env=False, timeout=self.seconds, limits=_NO_POOL
            ) as client,
            client.stream(
                asked.method,
                url.copy_with(host=str(address)),
                content=asked.body,
                # As it stands in the URL, with its port; the certificate has to be the host's too.
                headers={
                    **asked.headers,
                    "host": url.netloc.decode("ascii"),
                    "user-agent": "tally",
                    "accept-encoding": "identity",
                },
                extensions={"sni_hostname": url.raw_host.decode("ascii")},
            ) as response,
        ):
            return await self._read(response, until)

    async def _read(self, response: httpx.Response, until: float) -> OutboundAnswer:
        body, is_cut = b"", False
        try:
            async with asyncio.timeout_at(until):
                async for piece in response.aiter_raw(MOST_ANSWER_BYTES):
                    body += piece
                    # The rest is not waited for: the status has said it.
                    if len(body) >= MOST_ANSWER_BYTES:
                        break
        # The other side has answered with its status; only the body is missing.
        except (TimeoutError, httpx.HTTPError):
            is_cut = True
        return OutboundAnswer(
            status=response.status_code,
            retry_after=retry_after(response.headers.get("retry-after", ""), self.now()),
            body=body[:MOST_ANSWER_BYTES],
            is_cut=is_cut,
        )


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
