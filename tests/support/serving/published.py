"""Whether an answer is what its application publishes of it in its OpenAPI text."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
from fastapi import FastAPI
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import best_match

from runtime.http.answers import MEDIA_TYPE

# Rows of one answer have one shape: of a long list its beginning is looked at.
_MAX_ENTRIES = 50
_UNPUBLISHED = ("/openapi.json",)
_FORMATS = FormatChecker(["date"])


@_FORMATS.checks("date-time", raises=ValueError)
def _has_an_offset(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


def unlike(app: FastAPI, answer: httpx.Response) -> list[str]:
    """What of the answer is not as it is published, a line; nothing if it fits.

    An address that the application does not have is answered with a problem document.
    """
    method, path = answer.request.method, answer.request.url.path
    here = f"{method} {path} {answer.status_code}"
    if path in _UNPUBLISHED:
        return []
    responses = _responses(app.openapi(), method.lower(), path)
    found = responses.get(str(answer.status_code), {}).get("content")
    if found is None:
        return [f"{here}: no such answer is published"]
    media_type = answer.headers["content-type"].partition(";")[0]
    if media_type not in found:
        return [f"{here}: {media_type} is not published, but {', '.join(found)}"]
    if not media_type.endswith("json"):
        return []
    validator = _validator(app, found[media_type]["schema"])
    # Where there are several shapes: how it differs from the one that it comes nearest to.
    error = best_match(validator.iter_errors(_beginning(answer.json())))
    return [f"{here}: {error.json_path}: {error.message[-200:]}"] if error else []


def references(schema: object) -> Iterator[str]:
    """Every `$ref` of a schema, however deep."""
    if isinstance(schema, dict):
        for name, value in schema.items():
            yield from [value] if name == "$ref" else references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def _responses(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    for template, operations in document["paths"].items():
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
        if method in operations and re.fullmatch(pattern, path):
            return dict(operations[method]["responses"])
    schema = {"$ref": "#/components/schemas/Problem"}
    return {status: {"content": {MEDIA_TYPE: {"schema": schema}}} for status in ("404", "405")}


def _validator(app: FastAPI, schema: dict[str, Any]) -> Draft202012Validator:
    whole = {**schema, "components": app.openapi()["components"]}
    return Draft202012Validator(whole, format_checker=_FORMATS)


def _beginning(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _beginning(one) for name, one in value.items()}
    return [_beginning(one) for one in value[:_MAX_ENTRIES]] if isinstance(value, list) else value
