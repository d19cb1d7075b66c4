"""Descriptions of JSON schemas in words."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
_FORMATS = {"date": "day", "date-time": "instant"}


def describe_type(schema: Schema) -> str:
    """The type of a value, with links to shapes of the same page.

    >>> describe_type({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}})
    'list of (string or null)'
    >>> describe_type({"$ref": "#/components/schemas/Row"})
    '[Row](#row)'
    """
    if "$ref" in schema:
        name = reference_name(schema)
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return _either([f"`{value}`" for value in schema["enum"]])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _either([describe_type(choice) for choice in schema[several]])
    return _plain_type(schema)


def describe_limits(schema: Schema) -> str:
    """The bounds of a value, as text after its type; empty without bounds.

    >>> describe_limits({"type": "integer", "minimum": 1, "maximum": 10_000})
    ', 1 to 10,000'
    """
    if "minimum" in schema and "maximum" in schema:
        return f", {schema['minimum']:,} to {schema['maximum']:,}"
    return f", at most {schema['maxLength']:,} characters" if "maxLength" in schema else ""


def reference_name(schema: Schema) -> str:
    """The name of the shape that a schema refers to."""
    return str(schema["$ref"]).rpartition("/")[2]


def _plain_type(schema: Schema) -> str:
    kind = str(schema["type"])
    if kind == "array":
        return f"list of {_parenthesize(describe_type(schema['items']))}"
    if kind == "object":
        content = schema.get("additionalProperties")
        # An object whose fields are described in another file is not detailed here.
        return (
            f"map to {_parenthesize(describe_type(content))}"
            if isinstance(content, Mapping)
            else kind
        )
    return _FORMATS.get(schema.get("format", ""), kind)


def _either(types: list[str]) -> str:
    # An integer is also a number, so it is not listed beside one: sums are exact integers, ratios
    # are numbers.
    different = [kind for kind in types if kind != "integer" or "number" not in types]
    *others, last = different
    return f"{', '.join(others)} or {last}" if others else last


def _parenthesize(text: str) -> str:
    return f"({text})" if " or " in text else text
