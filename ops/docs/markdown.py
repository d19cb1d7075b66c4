"""Parts of a Markdown page: tables, and JSON schemas in words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# A JSON document, or a part of one.
Document = Mapping[str, Any]
_FORMATS = {"date": "day", "date-time": "instant"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that ends with a line break; each cell becomes one line."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines)


def codes(names: Iterable[str]) -> str:
    """Names as code, separated by commas, or a dash if there are none."""
    return ", ".join(f"`{name}`" for name in names) or "–"


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


def _cell(text: str) -> str:
    # A bar starts the next cell, even within code.
    return " ".join(text.split()).replace("|", "\\|")
