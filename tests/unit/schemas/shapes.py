"""The shape of a record: its fields, by a JSON Schema of any origin."""

from typing import Any


def shape(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """An object's fields, each with its type and whether it is required; `$ref`s followed, "or
    null" left out.

    (A canonical field without a value is not written at all, so null is no value of it.)
    """
    schema = _resolved(schema, definitions)
    required = schema.get("required", ())
    return {
        "fields": {
            name: (_type(told, definitions), name in required)
            for name, told in schema["properties"].items()
        }
    }


def _type(schema: dict[str, Any], definitions: dict[str, Any]) -> object:
    schema = _resolved(schema, definitions)
    if "properties" in schema:
        return shape(schema, definitions)
    if schema.get("type") == "array":
        return [_type(schema["items"], definitions)]
    return "string" if "enum" in schema else schema["type"]


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:
        (schema,) = (one for one in schema["anyOf"] if one != {"type": "null"})
    if "$ref" in schema:
        return dict(definitions[schema["$ref"].rsplit("/", 1)[1]])
    return schema
