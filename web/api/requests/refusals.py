"""Problem documents of limited size, no matter how long a request's path and fields are."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from runtime.http.problem import problem_response

MAX_ERRORS = 20
# Limits in characters, which JSON encodes in up to six bytes each; a document stays below 64 KiB.
_MAX_PATH, _MAX_DETAIL, _MAX_MESSAGES, _MAX_FIELD = 500, 2_000, 6_000, 64


def refusal(
    path: str,
    status: int,
    detail: str,
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
    **more: object,
) -> Response:
    """The problem document of runtime.http.problem: long texts cut, and the first errors only."""
    first = errors[:MAX_ERRORS]
    most = _MAX_MESSAGES // max(1, len(first))
    shown = [
        {
            **error,
            "field": _cut(error["field"], _MAX_FIELD),
            "message": _cut(error["message"], most),
        }
        for error in first
    ]
    cut_path, cut_detail = _cut(path, _MAX_PATH), _cut(detail, _MAX_DETAIL)
    return problem_response(cut_path, status, cut_detail, shown, headers, **more)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
