"""One call to a checked address, signed if that is wanted, and what its answer means."""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from hashlib import sha256
from typing import Literal

import httpx
from msgspec import Struct

from runtime.outbound.addresses import (
    AllowedNetwork,
    CallableAddress,
    HostLookups,
    parse_networks,
    parse_url,
    resolve_callable,
)
from runtime.outbound.signing import FILE, KeyLookup, read_signing_keys, webhook_headers
from tally.config.settings import Settings
from tally.errors import AddressRefused, BadSettings

SECONDS = 15.0
# At most so much of an answer's body is read, which lets the other side finish its answer.
MAX_ANSWER_BYTES = 4_096
# The share of a call's time that a body may use up; the rest is for reading the status.
_BODY_SHARE = 0.9
# At most so many of a host's addresses are tried, while none accepts the connection.
_MAX_ADDRESSES = 3
_NO_POOL = httpx.Limits(max_keepalive_connections=0)
SECOND = 1_000
# Milliseconds after each attempt; the last one repeats.
_DELAY_SECONDS = (5, 30, 120, 600, 3_600, 10_800, 21_600)
DELAYS = tuple(SECOND * seconds for seconds in _DELAY_SECONDS)
JITTER = 0.2
_TIMED_OUT, _OVERLOADED = 408, 429
# Causes are expired tokens, missing rights or a receiver being deployed, which people repair.
_BLOCKED_STATUSES = (401, 403, 404)
# Only the receiver's status decides the meaning; a result without one is in doubt.
AnswerKind = Literal["delivered", "refused", "blocked", "again", "in doubt"]


def parse_retry_after(text: str, now: float) -> float | None:
    """The seconds from now that a header Retry-After requests; None for any other text."""
    value = text.strip()
    if value.isascii() and value.isdigit():
        # A number with more digits is no realistic delay.
        return float(value) if len(value) < 10 else None
    try:
        instant = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.fromtimestamp(now, UTC)).total_seconds())


@dataclass(frozen=True)
class OutboundRequest:
    """A request to an address."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


class OutboundAnswer(Struct, frozen=True, kw_only=True):
    """A status and the begin of the body, or no status and the error.

    `retry_after`: seconds that the other side requests; `is_refused`: no call was made because of a
    fault on our own side (secrets, address, permissions); `is_unsent`: no host accepted the
    connection; `is_cut`: the status came, but the body is incomplete.
    """

    status: int | None = None
    retry_after: float | None = None
    body: bytes = b""
    error: str = ""
    is_refused: bool = False
    is_unsent: bool = False
    is_cut: bool = False


def _no_secrets(_names: Sequence[str]) -> Sequence[bytes]:
    raise BadSettings("no secrets to sign with")


@dataclass(frozen=True)
class OutboundCaller:
    """Calls addresses that may be called.

    `keys`: looks up the keys that sign a call; `now`: seconds since 1970 (UTC), the signed time of
    an attempt; `seconds`: of a whole call.
    """

    allowed: Sequence[AllowedNetwork] = ()
    keys: KeyLookup = _no_secrets
    now: Callable[[], float] = time.time
    seconds: float = SECONDS
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    lookups: HostLookups = field(default_factory=HostLookups)

    async def call(self, request: OutboundRequest) -> OutboundAnswer:
        """Make one call and return its outcome.

        It takes `seconds` at most, even if the other side misbehaves.
        """
        until = asyncio.get_running_loop().time() + _BODY_SHARE * self.seconds
        try:
            # The limit is on the whole call: a byte-by-byte answer never exceeds a read time-out.
            async with asyncio.timeout(self.seconds):
                target = parse_url(request.url)
                addresses = await resolve_callable(target, self.allowed, self.lookups)
                return await self._first_to_connect(target, addresses, request, until)
        except AddressRefused as error:
            return OutboundAnswer(error=str(error), is_refused=True)
        except TimeoutError:
            return OutboundAnswer(error=f"no answer in {self.seconds:.0f} s")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            reason = f"{type(error).__name__}: {error}"[:200]
            # A host that has not accepted the connection has certainly received nothing.
            is_unsent = isinstance(error, httpx.ConnectError | socket.gaierror)
            return OutboundAnswer(error=reason, is_unsent=is_unsent)

    async def call_signed(
        self, request: OutboundRequest, message_id: str, secrets: Sequence[str]
    ) -> OutboundAnswer:
        """Make one call, signed with the named secrets, and return its outcome."""
        try:
            keys = self.keys(secrets)
        except BadSettings as error:
            return OutboundAnswer(error=str(error), is_refused=True)
        signed = webhook_headers(keys, message_id, int(self.now()), request.body or b"")
        return await self.call(replace(request, headers={**signed, **request.headers}))

    async def _first_to_connect(
        self,
        url: httpx.URL,
        addresses: Sequence[CallableAddress],
        request: OutboundRequest,
        until: float,
    ) -> OutboundAnswer:
        *others, last = addresses[:_MAX_ADDRESSES]
        for address in others:
            # Nothing was sent; after any other error something may have been.
            with suppress(httpx.ConnectError):
                return await self._send(url, address, request, until)
        return await self._send(url, last, request, until)

    async def _send(
        self, url: httpx.URL, address: CallableAddress, request: OutboundRequest, until: float
    ) -> OutboundAnswer:
        target = url.copy_with(host=str(address))
        own_headers = {"user-agent": "tally", "accept-encoding": "identity"}
        # The host of the URL with its port; the certificate must be that host's too.
        headers = {**request.headers, "host": url.netloc.decode("ascii"), **own_headers}
        named = {"sni_hostname": url.raw_host.decode("ascii")}
        # A client for each call: connections are pooled by address, and hosts share addresses.
        async with (
            httpx.AsyncClient(
                verify=self.tls, trust_env=False, timeout=self.seconds, limits=_NO_POOL
            ) as client,
            client.stream(
                request.method, target, content=request.body, headers=headers, extensions=named
            ) as response,
        ):
            return await self._read(response, until)

    async def _read(self, response: httpx.Response, until: float) -> OutboundAnswer:
        body, is_cut = b"", False
        try:
            async with asyncio.timeout_at(until):
                async for piece in response.aiter_raw(MAX_ANSWER_BYTES):
                    body += piece
                    # The rest is not awaited: the status suffices.
                    if len(body) >= MAX_ANSWER_BYTES:
                        break
        # The other side has answered with its status; only the body is missing.
        except (TimeoutError, httpx.HTTPError):
            is_cut = True
        return OutboundAnswer(
            status=response.status_code,
            retry_after=parse_retry_after(response.headers.get("retry-after", ""), self.now()),
            body=body[:MAX_ANSWER_BYTES],
            is_cut=is_cut,
        )


def build_caller(
    settings: Settings, make: Callable[..., OutboundCaller] = OutboundCaller
) -> OutboundCaller:
    """A caller with the networks and secrets of the settings. Raises BadSettings."""
    keys = partial(read_signing_keys, settings.webhook_secrets or settings.home / FILE)
    return make(parse_networks(settings.webhook_networks), keys)


def retry_delay(name: str, attempts: int) -> int:
    """Milliseconds until the next retry, after `attempts` (one or more) at a call of this name."""
    delay = DELAYS[min(attempts, len(DELAYS)) - 1]
    # By the name and not at random: a process that restores the state computes the same delay.
    digest = sha256(f"{name}|{attempts}".encode()).digest()
    share = int.from_bytes(digest[:4]) / 0xFFFFFFFF
    return int(delay * (1 - JITTER + 2 * JITTER * share))


def classify_answer(answer: OutboundAnswer) -> AnswerKind:
    """The meaning of an answer.

    "again": the receiver has not accepted the message; "blocked": nor will it, until secrets,
    address or permissions are repaired; "in doubt": it may have accepted it. Redirects are
    refusals, because their targets are not checked.
    """
    status = answer.status
    if answer.is_refused or status in _BLOCKED_STATUSES:
        return "blocked"
    # An overloaded receiver has not accepted the message; one that timed out may have.
    if answer.is_unsent or status == _OVERLOADED:
        return "again"
    if status is None or status >= 500 or status < 200 or status == _TIMED_OUT:
        return "in doubt"
    return "delivered" if status < 300 else "refused"
