"""Answers in JSON, and problem documents (RFC 9457): every refusal of Tally's applications."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

JSON = "application/json"
MEDIA_TYPE = "application/problem+json"


def json_response(body: Any, status: int = 200) -> Response:
    """The body as JSON."""
    return Response(msgspec.json.encode(body), status, media_type=JSON)


def problem_response(
    path: str,
    status: int,
    detail: str,
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
    **more: object,
) -> Response:
    """A problem document: type, title, status, detail, instance, errors, and the fields of `more`.

    Each of the errors is {field, message, nearest?}; `headers` become HTTP headers.
    """
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": path,
        "errors": list(errors),
        **more,
    }
    return Response(msgspec.json.encode(body), status, headers, MEDIA_TYPE)
