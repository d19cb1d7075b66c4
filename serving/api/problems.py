"""Errors as application/problem+json (RFC 9457)."""

from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from serving.api import cursor
from serving.api.refusals import MOST_ERRORS, refusal
from tally.errors import (
    AlertNotOpen,
    AnswerMoved,
    BadQuery,
    Busy,
    EditsRefused,
    SimulationsBusy,
    TallyError,
    UnknownName,
    ViewsUnreachable,
)

log = structlog.get_logger()
RETRY_SECONDS = 5


def install(app: FastAPI) -> None:
    """Every error of the application answers with a problem document."""
    for kind, handler in (
        (BadQuery, _bad_query),
        (AnswerMoved, _moved),
        (UnknownName, _unknown),
        (ViewsUnreachable, _unreachable),
        (SimulationsBusy, _busy),
        (EditsRefused, _refused),
        (AlertNotOpen, _not_open),
        (Busy, _not_now),
        (TallyError, _failed),
        (RequestValidationError, _invalid),
        (HTTPException, _http),
        (Exception, _failed),
    ):
        app.add_exception_handler(kind, handler)


async def _bad_query(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadQuery)
    # What would have been right, where it is known: the two instants on the grid, the dimensions
    # there are.
    nearest = {"nearest": list(error.nearest)} if error.nearest else {}
    return refusal(
        request.url.path,
        422,
        error.message,
        [{"field": error.field, "message": error.message, **nearest}],
    )


async def _moved(request: Request, error: Exception) -> Response:
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
    # The cause names addresses and classes: it is for the log.
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


async def _refused(request: Request, error: Exception) -> Response:
    return refusal(request.url.path, 403, str(error))


async def _not_open(request: Request, error: Exception) -> Response:
    return refusal(request.url.path, 409, str(error))


async def _not_now(request: Request, error: Exception) -> Response:
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return refusal(request.url.path, 503, str(error), headers=headers)


async def _failed(request: Request, error: Exception) -> Response:
    # What went wrong may name statements, addresses and values: it is for the log.
    log.error("request failed", path=request.url.path, exc_info=error)
    return refusal(
        request.url.path, 500, "the answer could not be made; the API's log has the reason"
    )


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    every = error.errors()
    errors = [_invalid_entry(one) for one in every[:MOST_ERRORS]]
    left_out = len(every) - len(errors)
    messages = [entry["message"] for entry in errors]
    # First, so that it is not cut off.
    counted = [f"the first {len(errors)} errors, and {left_out} more"] if left_out else []
    return refusal(request.url.path, 422, "; ".join(counted + messages), errors)


def _invalid_entry(error: dict[str, Any]) -> dict[str, str]:
    # The place is (query, name), and of a parameter that is a list (query, name, number); of a body
    # that is not there (body,).
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
