"""The JSON Schema of a Struct as the files of schemas/topics have it."""

from typing import Any

import msgspec
from msgspec import Struct

Schema = dict[str, Any]
NULL = {"type": "null"}
_BOUNDS = ("pattern", "minLength", "maxLength")


def value_schema(kind: type[Struct]) -> Schema:
    """The object's schema: meanings and units beside each field, nothing referred to elsewhere."""
    (whole,), definitions = msgspec.json.schema_components([kind], ref_template="{name}")
    return _inlined(whole, definitions)


def _inlined(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    either = schema.get("anyOf", [schema])
    told = next(one for one in either if one != NULL)
    told = definitions.get(told.get("$ref", ""), told)
    found = _typed(told, definitions)
    if NULL in either:
        found["type"] = [found["type"], "null"]
        found |= {"enum": [*found["enum"], None]} if "enum" in found else {}
    # A definition has a description too: that of the field stands nearer.
    meaning = {"x-meaning": schema["description"]} if "description" in schema else {}
    unit = {"x-unit": schema["x-unit"]} if "x-unit" in schema else {}
    return {**found, **unit, **meaning}


def _typed(told: Schema, definitions: dict[str, Schema]) -> Schema:
    if "enum" in told:
        return {"type": "string", "enum": told["enum"]}
    if "properties" in told:
        fields = {name: _inlined(one, definitions) for name, one in told["properties"].items()}
        strict = {"additionalProperties": False, "required": told["required"]}
        return {"type": "object", **strict, "properties": fields}
    if told["type"] == "array":
        return {"type": "array", "items": _inlined(told["items"], definitions)}
    bounds = {name: told[name] for name in _BOUNDS if name in told}
    if "pattern" in bounds:
        # Python's end of the text; JSON Schema has only `$`.
        bounds["pattern"] = bounds["pattern"].replace(r"\Z", "$")
    return {"type": told["type"], **bounds}
