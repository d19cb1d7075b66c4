"""The page of the HTTP API, generated from the OpenAPI documents of the applications."""

import json
from collections.abc import Iterator, Mapping
from itertools import starmap
from typing import Any

from ops.docs.reference import table
from schemas import loader

# A JSON document, or a part of one.
Document = Mapping[str, Any]
_FORMATS = {"date": "day", "date-time": "instant"}
HEADING = """# The HTTP API

Made from what `web/api/` and `ingest/gateway/` say of themselves (OpenAPI 3.1, each at its
`/openapi.json`) by `python -m ops.docs`; do not edit.

Instants are RFC 3339 with an offset. Money is in minor units of its currency. Whatever is not
answered with success is a problem document (RFC 9457). What one client may take, and what answers
it beyond that, is in [what is guaranteed](../guarantees.md#from-the-sender-on); words are in the
[glossary](../glossary.md).
"""


def api_page(*documents: Document) -> str:
    """The page as Markdown. Raises ValueError for two different shapes of one name."""
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
        yield table(("parameter", "type", "default", "meaning"), map(_parameter, parameters))
    # Sorted by status: FastAPI puts the responses that it adds itself first.
    answers = sorted(operation["responses"].items())
    yield table(("status", "answer", "meaning"), starmap(_answer, answers))


def _parameter(parameter: Document) -> tuple[str, str, str, str]:
    schema = parameter["schema"]
    default = "required" if parameter["required"] else f"`{json.dumps(schema.get('default'))}`"
    kind = f"{describe_type(schema)}{describe_limits(schema)}"
    place = " (in the path)" if parameter["in"] == "path" else ""
    return f"`{parameter['name']}`{place}", kind, default, parameter.get("description", "")


def _body(content: Document) -> str:
    if "application/json" not in content:
        return "what the vendor sends, as it is"
    titles = {loader.message_schema(name)["title"]: name for name in loader.builtin_sources()}
    schema = content["application/json"]["schema"]
    title = schema.get("title")
    if title not in titles:
        return f"one {describe_type(schema)} as `application/json`"
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
    rows = []
    for field, schema in shape["properties"].items():
        absent = "" if field in shape.get("required", ()) else "; may be absent"
        kind = f"{describe_type(schema)}{absent}"
        rows.append((f"`{field}`", kind, schema.get("description", "")))
    yield table(("field", "type", "meaning"), rows)


def describe_type(schema: Document) -> str:
    """The type of a value, with links to shapes of the same page.

    >>> describe_type({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}})
    'list of (string or null)'
    >>> describe_type({"$ref": "#/components/schemas/Row"})
    '[Row](#row)'
    """
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return _either([f"`{value}`" for value in schema["enum"]])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _either([describe_type(choice) for choice in schema[several]])
    return _plain_type(schema)


def describe_limits(schema: Document) -> str:
    """The bounds of a value, as text after its type; empty without bounds.

    >>> describe_limits({"type": "integer", "minimum": 1, "maximum": 10_000})
    ', 1 to 10,000'
    """
    if "minimum" in schema and "maximum" in schema:
        return f", {schema['minimum']:,} to {schema['maximum']:,}"
    return f", at most {schema['maxLength']:,} characters" if "maxLength" in schema else ""


def _plain_type(schema: Document) -> str:
    kind = str(schema["type"])
    if kind == "array":
        return f"list of {_parenthesize(describe_type(schema['items']))}"
    if kind == "object":
        content = schema.get("additionalProperties")
        # An object whose fields are described in another file is not detailed here.
        if isinstance(content, Mapping):
            return f"map to {_parenthesize(describe_type(content))}"
        return kind
    return _FORMATS.get(schema.get("format", ""), kind)


def _either(types: list[str]) -> str:
    # An integer is also a number, so it is not listed beside one: sums are exact integers, ratios
    # are numbers.
    *others, last = (kind for kind in types if kind != "integer" or "number" not in types)
    return f"{', '.join(others)} or {last}" if others else last


def _parenthesize(text: str) -> str:
    return f"({text})" if " or " in text else text
