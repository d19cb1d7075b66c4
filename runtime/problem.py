"""What every refusal of our applications looks like: a problem document (RFC 9457)."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"


def problem(
    path: str,
    status: int,
    detail: str,
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
    **more: object,
) -> Response:
    """A problem document: type, title, status, detail, instance, errors, and what else is given.

    Each of the errors is {field, message, nearest?}; `headers` go beside the document.
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
