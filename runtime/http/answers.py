"""Answers in JSON, every refusal as a problem document (RFC 9457), and their OpenAPI text.

The shapes of the text are msgspec Structs, and nothing is encoded through them: they change neither
an answer's bytes nor its time. Tests check that answers fit their shapes.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI
from fastapi.routing import APIRoute
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

JSON = "application/json"
MEDIA_TYPE = "application/problem+json"
# The answers of a route by status: the `responses` of FastAPI.
Responses = dict[int | str, dict[str, Any]]
_REFERENCE = "#/components/schemas/{name}"


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
    kind = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    body = {**kind, "detail": detail, "instance": path, "errors": list(errors), **more}
    return Response(msgspec.json.encode(body), status, headers, MEDIA_TYPE)


# Strict, so that the tests find a field without a description.
class Shape(Struct, forbid_unknown_fields=True):
    """An object of an answer. It has no other fields than these."""


class FieldError(Shape):
    """What is wrong with one parameter."""

    field: Annotated[str, Meta(description="name of the parameter")]
    message: Annotated[str, Meta(description="what is wrong with it, and what would be right")]
    nearest: Annotated[
        list[str] | UnsetType, Meta(description="values near to the given one that would be taken")
    ] = UNSET


class Problem(Shape):
    """Why there is no answer (RFC 9457)."""

    type: Annotated[str, Meta(description="always `about:blank`: the status says which kind")]
    title: Annotated[str, Meta(description="the status in words")]
    status: Annotated[int, Meta(description="the HTTP status")]
    detail: Annotated[str, Meta(description="what happened, and what to do")]
    instance: Annotated[str, Meta(description="path of the request")]
    errors: Annotated[list[FieldError], Meta(description="by parameter; may be empty")]


class Health(Shape):
    """Whether the process can go on."""

    status: Annotated[str, Meta(description="`ok`; `failed` in the moments before it ends")]


class ReadinessCheck(Shape):
    """One thing that is looked at."""

    ok: Annotated[bool, Meta(description="whether it is as it should be")]
    detail: Annotated[str, Meta(description="what was found")]


class Readiness(Shape):
    """Whether a request would be answered now."""

    ready: Annotated[bool, Meta(description="false with status 503")]
    checks: Annotated[dict[str, ReadinessCheck], Meta(description="by what was looked at")]


class PublishedAnswer(dict[str, Any]):
    """An entry of a route's `responses`, which knows the shapes that it refers to."""

    shapes: tuple[type[Shape], ...] = ()


class DocumentedApp(FastAPI):
    """An application whose OpenAPI text holds the shapes of its routes' answers."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, made once."""
        if self.openapi_schema is None:
            # FastAPI supports only pydantic's models, and would encode answers through them.
            shapes = dict.fromkeys(
                shape
                for route in self.routes
                if isinstance(route, APIRoute)
                for answer in route.responses.values()
                if isinstance(answer, PublishedAnswer)
                for shape in answer.shapes
            )
            _, schemas = msgspec.json.schema_components(shapes, ref_template=_REFERENCE)
            components = super().openapi().setdefault("components", {})
            components.setdefault("schemas", {}).update(schemas)
        return super().openapi()


def response_entry(meaning: str, *shapes: type[Shape], media_type: str = JSON) -> PublishedAnswer:
    """An entry of a route's `responses`: its meaning, and a body with one of the shapes."""
    references = [{"$ref": _REFERENCE.format(name=shape.__name__)} for shape in shapes]
    schema = references[0] if len(references) == 1 else {"oneOf": references}
    entry = PublishedAnswer(description=meaning, content={media_type: {"schema": schema}})
    entry.shapes = shapes
    return entry


def problem_entry(meaning: str, shape: type[Problem] = Problem) -> PublishedAnswer:
    """An entry of a route's `responses` that is a problem document."""
    return response_entry(meaning, shape, media_type=MEDIA_TYPE)
