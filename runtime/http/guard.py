"""Middleware of every application: known hosts, foreign pages, headers, and memory for bodies."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Addresses to listen on, never a name in a request.
_WILDCARDS = ("0.0.0.0", "::", "")
_SAFE = ("GET", "HEAD", "OPTIONS")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_FREE_BYTES = 16 * 1024
STRICT_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


class Guard:
    """Refuses unknown hosts (DNS rebinding, 400) and foreign pages (403); adds headers."""

    def __init__(
        self, app: ASGIApp, hosts: Iterable[str], page_policy: str = STRICT_POLICY
    ) -> None:
        self._app, self._hosts, self._page_policy = app, frozenset(hosts), page_policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the requests that are allowed."""
        # Lifespan messages come from the server and not from a client.
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
        elif refusal := self._refusal(scope):
            await _refuse(scope, receive, self._with_headers(send), refusal)
        else:
            is_http = scope["type"] == "http"
            await self._app(scope, receive, self._with_headers(send) if is_http else send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        names = headers.getlist("host")
        # Zero or several Host headers are 400 by RFC 9112: a proxy before us may use another one.
        if len(names) != 1 or not self._hosts & {"*", _host_name(names[0])}:
            return 400, "This name is not served here; TALLY_ALLOWED_HOSTS lists further names."
        if self._is_foreign(scope, headers):
            return 403, "Requests that another site's page makes are refused."
        return None

    def _is_foreign(self, scope: Scope, headers: Headers) -> bool:
        is_harmless = scope["type"] == "http" and scope["method"] in _SAFE
        origin = headers.get("origin")
        if origin is not None and not is_harmless and not _has_host(origin, headers["host"]):
            return True
        # A link from another site may be followed; its scripts, images and forms are refused.
        is_visit = is_harmless and headers.get("sec-fetch-mode") == "navigate"
        return headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_visit

    def _with_headers(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                is_page = headers.get("content-type", "").startswith("text/html")
                policy = self._page_policy if is_page else STRICT_POLICY
                headers.setdefault("Content-Security-Policy", policy)
            await send(message)

        return send_with_headers


class BodyBudget:
    """Bounds the request bodies in memory over all requests, in bytes.

    A request beyond the budget gets 503. The first bytes of each request are free, so that a till's
    receipt gets in while others fill the budget with large bodies.
    """

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app, self._most_bytes, self._bytes = app, most_bytes, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the received bytes until the request has ended."""
        read = taken = 0

        async def receive_within_budget() -> Message:
            """Receive the next message. Raises HTTPException 503 when it exceeds the budget."""
            nonlocal read, taken
            message = await receive()
            # Received bytes are counted: the announced length is only the client's claim.
            before = max(0, read - _FREE_BYTES)
            read += len(message.get("body", b""))
            taken = max(0, read - _FREE_BYTES)
            self._bytes += taken - before
            if taken and self._bytes > self._most_bytes:
                reason = "too many requests are being read; send again later"
                raise HTTPException(503, reason, {"Retry-After": "1", "Connection": "close"})
            return message

        is_http = scope["type"] == "http"
        try:
            await self._app(scope, receive_within_budget if is_http else receive, send)
        except ClientDisconnect:
            # The client hung up, or the request ended at its deadline: no response is possible, and
            # nothing has failed here.
            return
        finally:
            self._bytes -= taken


def parse_allowed_hosts(address: str, allowed: str) -> frozenset[str]:
    """Host names accepted for a server on host:port: loopback, its own, those listed (`*`: any)."""
    own_host = address.rsplit(":", 1)[0].strip("[]").lower()
    names = (name.strip() for name in allowed.split(","))
    listed = (name.strip("[]").lower() for name in names)
    return frozenset(name for name in (*_LOOPBACK, own_host, *listed) if name not in _WILDCARDS)


def _host_name(value: str) -> str:
    """The host in a Host header without its port; "" for an invalid header."""
    if "@" in value or "/" in value:
        return ""
    try:
        return urlsplit(f"//{value}").hostname or ""
    except ValueError:
        return ""


def _has_host(origin: str, host: str) -> bool:
    """Whether an Origin header names the host and port; False if it cannot be parsed."""
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


async def _refuse(
    scope: Scope,
    receive: Receive,
    send: Send,
    refusal: tuple[int, str],
) -> None:
    status, reason = refusal
    if scope["type"] == "websocket":
        # Closing a socket before it is accepted makes the server answer 403.
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
    else:
        await PlainTextResponse(reason, status, {"Connection": "close"})(scope, receive, send)
