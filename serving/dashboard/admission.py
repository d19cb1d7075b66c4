"""A bound on what strangers' visits cost.

Each page is work of the API's only event loop, and memory until its browser is gone.
"""

import time
from http import HTTPStatus

from nicegui import Client
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

# A store's page of 28 days costs over half a second of the processor, most of it beside the loop,
# and 1 MB to keep.
PAGES_A_SECOND = 2.0
MOST_AT_ONCE = 20
MOST_KEPT = 200
# A browser opens its socket within seconds; a page without one is a stranger's.
_ABANDONED_SECONDS = 10.0
# Everything else is a page, also the one that says that there is none.
_NO_PAGES = ("/v1/", "/_nicegui", "/healthz", "/readyz", "/metrics", "/openapi.json")


class Admission:
    """Lets a page through while there are tokens and room, else 503; other addresses always."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._tokens = float(MOST_AT_ONCE)
        self._filled_at = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on, or refuses."""
        if (
            scope["type"] != "http"
            or scope["path"].startswith(_NO_PAGES)
            or (self._has_token() and _has_room())
        ):
            await self._app(scope, receive, send)
            return
        text = "Too many pages are asked for; try again in a moment."
        await PlainTextResponse(text, HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "2"})(
            scope, receive, send
        )

    def _has_token(self) -> bool:
        now = time.monotonic()
        self._tokens = min(MOST_AT_ONCE, self._tokens + PAGES_A_SECOND * (now - self._filled_at))
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def _has_room() -> bool:
    if len(Client.instances) >= MOST_KEPT:
        Client.prune_instances(client_age_threshold=_ABANDONED_SECONDS)
    return len(Client.instances) < MOST_KEPT
