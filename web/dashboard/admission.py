"""Requests that get no page: too many at once, and those to unknown paths.

Each page is work for the API's only event loop, and it uses memory until its browser leaves.
"""

import re
import time
from collections.abc import Iterable
from http import HTTPStatus

from fastapi import FastAPI, HTTPException, Request, Response
from nicegui import Client
from nicegui import app as nicegui_app
from starlette.responses import PlainTextResponse
from starlette.routing import Match, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

# A store's page of 28 days costs over half a second of processor time, most of it outside the event
# loop, and 1 MB of memory while it is kept.
PAGES_A_SECOND = 2.0
MAX_AT_ONCE = 20
MAX_CLIENTS = 200
# A real browser opens its socket within seconds; a page without a socket is treated as abandoned.
_ABANDONED_SECONDS = 10.0
_NO_PAGE = "There is no such page; / has the numbers, and /openapi.json the addresses of the API."


class Admission:
    """Middleware that answers 503 to page requests without a free token or room for a client.

    Requests to other addresses always pass. `pages`: the paths of the pages, as route patterns. A
    path counts as a page only if it matches a pattern as a whole: a path that merely begins like
    one is answered with 404, which costs next to nothing.
    """

    def __init__(self, app: ASGIApp, pages: Iterable[str]) -> None:
        self._app = app
        self._pages = [compile_path(path)[0] for path in pages]
        self._tokens = float(MAX_AT_ONCE)
        self._filled_at = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if (
            scope["type"] != "http"
            or not _matches_any(scope["path"], self._pages)
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
        self._tokens = min(MAX_AT_ONCE, self._tokens + PAGES_A_SECOND * (now - self._filled_at))
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def _matches_any(path: str, patterns: Iterable[re.Pattern[str]]) -> bool:
    return any(pattern.match(path) for pattern in patterns)


def _has_room() -> bool:
    if len(Client.instances) >= MAX_CLIENTS:
        Client.prune_instances(client_age_threshold=_ABANDONED_SECONDS)
    return len(Client.instances) < MAX_CLIENTS


def add_api_not_found(app: FastAPI) -> None:
    """Answer unknown paths and methods below /v1 with an error of the API.

    Without this route the pages, which take every remaining path, would answer them.
    """

    @app.api_route(
        "/v1/{rest:path}",
        methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
        include_in_schema=False,
    )
    async def unknown(request: Request) -> None:
        """Raises HTTPException: 405 where the path has other methods, else 404."""
        is_other_method = any(
            route.matches(request.scope)[0] is Match.PARTIAL for route in app.routes
        )
        raise HTTPException(
            HTTPStatus.METHOD_NOT_ALLOWED if is_other_method else HTTPStatus.NOT_FOUND
        )


def add_page_not_found() -> None:
    """Answer unknown paths with a text instead of a NiceGUI page, which NiceGUI would keep."""
    nicegui_app.add_exception_handler(HTTPStatus.NOT_FOUND, _no_such_page)


async def _no_such_page(_request: Request, _error: Exception) -> Response:
    return PlainTextResponse(_NO_PAGE, HTTPStatus.NOT_FOUND)
