"""Errors as application/problem+json (RFC 9457)."""

from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

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
from web.api.requests import cursor
from web.api.requests.refusals import MAX_ERRORS, refusal

log = structlog.get_logger()
RETRY_SECONDS = 5


def install(app: FastAPI) -> None:
    """Make every error of the application answer with a problem document."""
    for kind, handler in (
        (BadQuery, _bad_query),
        (AnswerChanged, _answer_moved),
        (UnknownName, _unknown),
        (ViewsUnreachable, _unreachable),
        (SimulationsBusy, _busy),
        (EditsRefused, _edits_refused),
        (AlertNotOpen, _not_open),
        (Busy, _overloaded),
        (TallyError, _internal_error),
        (RequestValidationError, _invalid),
        (HTTPException, _http),
        (Exception, _internal_error),
    ):
        app.add_exception_handler(kind, handler)


async def _bad_query(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadQuery)
    # Valid alternatives, if they are known: the two nearest instants on the grid, or the existing
    # dimensions.
    nearest = {"nearest": list(error.nearest)} if error.nearest else {}
    return refusal(
        request.url.path,
        422,
        error.message,
        [{"field": error.field, "message": error.message, **nearest}],
    )


async def _answer_moved(request: Request, error: Exception) -> Response:
    return refusal(
        request.url.path,
        409,
        str(error),
        next=cursor.address(request.url.path, request.query_params.multi_items(), None),
    )


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, UnknownName)
    return refusal(
        request.url.path,
        404,
        error.message,
        [{"field": error.field, "message": error.message}],
    )


async def _unreachable(request: Request, error: Exception) -> Response:
    # The cause names addresses and classes, so it is only logged.
    log.warning("views unreachable", path=request.url.path, reason=str(error.__cause__ or error))
    return refusal(
        request.url.path,
        503,
        str(error),
        headers={"Retry-After": str(RETRY_SECONDS)},
    )


async def _busy(request: Request, error: Exception) -> Response:
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return refusal(request.url.path, 429, str(error), headers=headers)


async def _edits_refused(request: Request, error: Exception) -> Response:
    return refusal(request.url.path, 403, str(error))


async def _not_open(request: Request, error: Exception) -> Response:
    return refusal(request.url.path, 409, str(error))


async def _overloaded(request: Request, error: Exception) -> Response:
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return refusal(request.url.path, 503, str(error), headers=headers)


async def _internal_error(request: Request, error: Exception) -> Response:
    # The error may name statements, addresses and values, so it is only logged.
    log.error("request failed", path=request.url.path, exc_info=error)
    return refusal(
        request.url.path, 500, "the answer could not be made; the API's log has the reason"
    )


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
    if error["type"] == "extra_forbidden":
        return {"field": field, "message": f"{field}: there is no such parameter"}
    message = error["msg"].removeprefix("Value error, ")
    return {"field": field, "message": f"{field}: {message}"}


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    detail = f"{request.method} {path}: {error.detail}"
    return refusal(path, error.status_code, detail, headers=error.headers)
