"""Limits of requests, and errors: application/problem+json (RFC 9457) of limited size."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.http.answers import problem_response
from tally.errors import (
    AlertNotOpen,
    AnswerChanged,
    BadQuery,
    Busy,
    EditsRefused,
    SimulationsBusy,
    TallyError,
    UnknownName,
    ViewsUnreachable,
)
from web.api.requests.shared import page_address

log = structlog.get_logger()
RETRY = {"Retry-After": "5"}
MAX_BODY_BYTES = 64 * 1024
# The limit counts distinct names, because a list of stores is one name with many values.
MAX_PARAMETERS = 64
MAX_ERRORS = 20
# Limits in characters, which JSON encodes in up to six bytes each; a document stays below 64 KiB.
_MAX_PATH, _MAX_DETAIL, _MAX_MESSAGES, _MAX_FIELD = 500, 2_000, 6_000, 64
Handler = Callable[[Request, Exception], Awaitable[Response]]


class RequestBounds:
    """Middleware that refuses too many query names (422) and too large bodies (413), below /v1.

    A query is refused before it is parsed, because FastAPI looks up each name among all values.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on if it is within the limits."""
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, send)
            return
        pairs = scope["query_string"].split(b"&")
        count = len({pair.partition(b"=")[0] for pair in pairs})
        if count > MAX_PARAMETERS:
            detail = f"query: at most {MAX_PARAMETERS} parameters, got {count:,}; ask for less"
            error = {"field": "query", "message": detail}
            await refusal(scope["path"], 422, detail, [error])(scope, receive, send)
            return
        await self._app(scope, _limit_body(receive), send)


def install(app: FastAPI) -> None:
    """Make every error of the application answer with a problem document."""
    for kind, handler in (
        (BadQuery, _wrong_field),
        (AnswerChanged, _answer_moved),
        (UnknownName, _wrong_field),
        (ViewsUnreachable, _unreachable),
        (SimulationsBusy, _refuse(429, RETRY)),
        (EditsRefused, _refuse(403)),
        (AlertNotOpen, _refuse(409)),
        (Busy, _refuse(503, RETRY)),
        (TallyError, _internal_error),
        (RequestValidationError, _invalid),
        (HTTPException, _http),
        (Exception, _internal_error),
    ):
        app.add_exception_handler(kind, handler)


def refusal(
    path: str,
    status: int,
    detail: str,
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
    **more: object,
) -> Response:
    """The problem document of runtime.http.answers: long texts cut, and the first errors only."""
    first = errors[:MAX_ERRORS]
    most = _MAX_MESSAGES // max(1, len(first))
    shown = []
    for error in first:
        field, message = _cut(error["field"], _MAX_FIELD), _cut(error["message"], most)
        shown.append({**error, "field": field, "message": message})
    cut_path, cut_detail = _cut(path, _MAX_PATH), _cut(detail, _MAX_DETAIL)
    return problem_response(cut_path, status, cut_detail, shown, headers, **more)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _refuse(status: int, headers: Mapping[str, str] | None = None) -> Handler:
    async def refuse(request: Request, error: Exception) -> Response:
        return refusal(request.url.path, status, str(error), headers=headers)

    return refuse


async def _wrong_field(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadQuery | UnknownName)
    entry: dict[str, Any] = {"field": error.field, "message": error.message}
    if isinstance(error, UnknownName):
        return refusal(request.url.path, 404, error.message, [entry])
    # Valid alternatives, if they are known: the two nearest instants on the grid, or the existing
    # dimensions.
    if error.nearest:
        entry["nearest"] = list(error.nearest)
    return refusal(request.url.path, 422, error.message, [entry])


async def _answer_moved(request: Request, error: Exception) -> Response:
    path = request.url.path
    first_page = page_address(path, request.query_params.multi_items())
    return refusal(path, 409, str(error), next=first_page)


async def _unreachable(request: Request, error: Exception) -> Response:
    # The cause names addresses and classes, so it is only logged.
    log.warning("views unreachable", path=request.url.path, reason=str(error.__cause__ or error))
    return refusal(request.url.path, 503, str(error), headers=RETRY)


async def _internal_error(request: Request, error: Exception) -> Response:
    # The error may name statements, addresses and values, so it is only logged.
    log.error("request failed", path=request.url.path, exc_info=error)
    detail = "the answer could not be made; the API's log has the reason"
    return refusal(request.url.path, 500, detail)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    all_errors = error.errors()
    errors = [_invalid_entry(found) for found in all_errors[:MAX_ERRORS]]
    left_out = len(all_errors) - len(errors)
    messages = [entry["message"] for entry in errors]
    # The summary comes first, so that it is not cut off.
    summary = [f"the first {len(errors)} errors, and {left_out} more"] if left_out else []
    return refusal(request.url.path, 422, "; ".join(summary + messages), errors)


def _invalid_entry(error: dict[str, Any]) -> dict[str, str]:
    # The location is (query, name), for a parameter that is a list (query, name, number), and for
    # a missing body (body,).
    place = (*error["loc"], "")
    field = str(place[0] if place[1] == "" else place[1])[:64]
    is_unknown = error["type"] == "extra_forbidden"
    reason = "there is no such parameter" if is_unknown else error["msg"]
    return {"field": field, "message": f"{field}: {reason.removeprefix('Value error, ')}"}


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = f"{request.method} {request.url.path}: {error.detail}"
    return refusal(request.url.path, error.status_code, detail, headers=error.headers)


def _limit_body(receive: Receive) -> Receive:
    read = 0

    async def receive_limited() -> Message:
        """The next message. Raises HTTPException 413 once the body is too large."""
        nonlocal read
        message = await receive()
        # Received bytes are counted, because the declared length is only the client's claim.
        read += len(message.get("body", b""))
        if read > MAX_BODY_BYTES:
            detail = f"a body has at most {MAX_BODY_BYTES:,} bytes; send less"
            raise HTTPException(413, detail, {"Connection": "close"})
        return message

    return receive_limited
