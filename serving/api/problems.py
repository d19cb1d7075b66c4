"""Errors as application/problem+json (RFC 9457)."""

from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from serving.api import cursor
from tally.errors import AnswerMoved, BadQuery, TallyError, UnknownName, ViewsUnreachable

log = structlog.get_logger()
RETRY_SECONDS = 5


def problem(
    request: Request,
    status: int,
    detail: str,
    errors: list[dict[str, Any]] | None = None,
    **more: str,
) -> Response:
    """A problem document: type, title, status, detail, instance, errors; `next` of a 409.

    Each of the errors is {field, message, nearest?}.
    """
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": request.url.path,
        "errors": errors or [],
        **more,
    }
    return Response(msgspec.json.encode(body), status, media_type="application/problem+json")


def install(app: FastAPI) -> None:
    """Every error of the application answers with a problem document."""
    for kind, handler in (
        (BadQuery, _bad_query),
        (AnswerMoved, _moved),
        (UnknownName, _unknown),
        (ViewsUnreachable, _unreachable),
        (TallyError, _failed),
        (RequestValidationError, _invalid),
        (HTTPException, _http),
        (Exception, _failed),
    ):
        app.add_exception_handler(kind, handler)


async def _bad_query(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadQuery)
    nearest = {"nearest": list(error.nearest)} if error.nearest else {}
    return problem(
        request, 422, error.message, [{"field": error.field, "message": error.message, **nearest}]
    )


async def _moved(request: Request, error: Exception) -> Response:
    return problem(
        request,
        409,
        str(error),
        next=cursor.address(request.url.path, request.query_params.multi_items(), None),
    )


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, UnknownName)
    return problem(request, 404, error.message, [{"field": error.field, "message": error.message}])


async def _unreachable(request: Request, error: Exception) -> Response:
    # The cause names addresses and classes: it is for the log.
    log.warning("views unreachable", path=request.url.path, reason=str(error.__cause__ or error))
    answer = problem(request, 503, str(error))
    answer.headers["Retry-After"] = str(RETRY_SECONDS)
    return answer


async def _failed(request: Request, error: Exception) -> Response:
    log.error("request failed", path=request.url.path, exc_info=error)
    return problem(request, 500, "the answer could not be made; the API's log has the reason")


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [_invalid_entry(one) for one in error.errors()]
    return problem(request, 422, "; ".join(one["message"] for one in errors), errors)


def _invalid_entry(error: dict[str, Any]) -> dict[str, str]:
    field = str(error["loc"][-1] if len(error["loc"]) == 2 else error["loc"][1])
    if error["type"] == "extra_forbidden":
        return {"field": field, "message": f"{field[:64]}: there is no such parameter"}
    return {"field": field, "message": f"{field}: {error['msg']}"}


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(
        request, error.status_code, f"{request.method} {request.url.path}: {error.detail}"
    )
