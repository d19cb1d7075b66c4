"""Problem documents (RFC 9457), the form of every refusal of Tally's applications."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"


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
