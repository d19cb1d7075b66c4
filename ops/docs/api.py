"""The page of the HTTP API, generated from the OpenAPI documents of the applications."""

import json
from collections.abc import Iterator

from ops.docs.markdown import Document, describe_limits, describe_type, table
from schemas import loader

HEADING = """# The HTTP API

Made from what `web/api/` and `ingest/gateway/` say of themselves (OpenAPI 3.1, each at its
`/openapi.json`) by `python -m ops.docs`; do not edit.

Instants are RFC 3339 with an offset. Money is in minor units of its currency. Whatever is not
answered with success is a problem document (RFC 9457). What one client may take, and what answers
it beyond that, is in [what is guaranteed](../guarantees.md#from-the-sender-on); words are in the
[glossary](../glossary.md).
"""


def api_page(*documents: Document) -> str:
    """The page as Markdown: each application with its addresses, then every shape once.

    Raises ValueError when two applications give different shapes one name.
    """
    parts = [part for document in documents for part in _application(document)]
    shapes = _all_shapes(documents)
    named = [part for name in sorted(shapes) for part in _shape(name, shapes[name])]
    return "\n".join([HEADING, *parts, "## Shapes\n", *named])


def _application(document: Document) -> Iterator[str]:
    info = document["info"]
    yield f"## {info['title']}\n"
    if "summary" in info:
        yield f"{info['summary']}\n"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"### {method.upper()} {path}\n"
            yield from _operation(operation)


def _operation(operation: Document) -> Iterator[str]:
    yield f"{operation['summary']}.\n"
    if "requestBody" in operation:
        yield f"Body: {_body(operation['requestBody']['content'])}.\n"
    if parameters := operation.get("parameters"):
        yield table(
            ("parameter", "type", "default", "meaning"),
            (_parameter(parameter) for parameter in parameters),
        )
    # Sorted by status: FastAPI puts the responses that it adds itself first.
    answers = sorted(operation["responses"].items())
    yield table(("status", "answer", "meaning"), (_answer(*answer) for answer in answers))


def _parameter(parameter: Document) -> tuple[str, str, str, str]:
    schema = parameter["schema"]
    default = "required" if parameter["required"] else f"`{json.dumps(schema.get('default'))}`"
    kind = f"{describe_type(schema)}{describe_limits(schema)}"
    place = " (in the path)" if parameter["in"] == "path" else ""
    return f"`{parameter['name']}`{place}", kind, default, parameter.get("description", "")


def _body(content: Document) -> str:
    """The media types of a body, with the file of the message's schema or the shape."""
    titles = {loader.message_schema(name)["title"]: name for name in loader.builtin_sources()}
    if "application/json" not in content:
        return "what the vendor sends, as it is"
    schema = content["application/json"]["schema"]
    if schema.get("title") not in titles:
        return f"one {describe_type(schema)} as `application/json`"
    title = schema["title"]
    file = f"ingest/sources/{titles[title]}/message.schema.json"
    single = f"one [{title}](../../{file}) as `application/json`"
    return f"{single}, or one a line as `application/x-ndjson`"


def _answer(status: str, response: Document) -> tuple[str, str, str]:
    bodies = [
        f"`{media_type}`" if media_type == "text/plain" else describe_type(body["schema"])
        for media_type, body in response["content"].items()
    ]
    return status, ", ".join(bodies), response["description"]


def _all_shapes(documents: tuple[Document, ...]) -> dict[str, Document]:
    found: dict[str, Document] = {}
    for document in documents:
        for name, shape in document["components"]["schemas"].items():
            if found.setdefault(name, shape) != shape:
                raise ValueError(f"two applications have different shapes of the name {name}")
    return found


def _shape(name: str, shape: Document) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"{shape['description']}\n"
    rows = (
        (
            f"`{field}`",
            describe_type(schema)
            + ("" if field in shape.get("required", ()) else "; may be absent"),
            schema.get("description", ""),
        )
        for field, schema in shape["properties"].items()
    )
    yield table(("field", "type", "meaning"), rows)
