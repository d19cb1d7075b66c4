from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from schemas.loader import event_schema, topics
from tally.events import SCHEMA_VERSION, CanonicalInterval, CanonicalReceipt
from tally.families import FAMILIES

EVENTS = ("pos", "raw-traffic", "sales", "traffic")


@pytest.mark.parametrize(
    ("name", "struct"), [("sales", CanonicalReceipt), ("traffic", CanonicalInterval)]
)
def test_the_python_type_and_the_json_schema_have_the_same_fields(name: str, struct: type) -> None:
    written = msgspec.json.schema(struct)

    assert shape(written, written["$defs"]) == shape(event_schema(name), {})


def test_a_planted_difference_of_type_is_found() -> None:
    told = event_schema("traffic")
    planted = {**told, "properties": {**told["properties"], "exits": {"type": "string"}}}

    assert shape(planted, {}) != shape(told, {})


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_axes_are_texts_and_parts_integers_that_each_record_has(family: Any) -> None:
    fields = shape(event_schema(family.name), {})["fields"]

    assert [fields[axis] for axis in family.axes] == [("string", True)] * len(family.axes)
    assert [fields[part] for part in family.parts] == [("integer", True)] * len(family.parts)


@pytest.mark.parametrize("name", EVENTS)
def test_each_event_schema_is_valid_and_carries_the_version(name: str) -> None:
    Draft202012Validator.check_schema(event_schema(name))

    assert event_schema(name)["properties"]["schema_version"]["const"] == SCHEMA_VERSION


@pytest.mark.parametrize("name", EVENTS)
def test_each_field_has_a_meaning(name: str) -> None:
    assert [
        field for field, told in fields_of(event_schema(name)) if not told.get("x-meaning")
    ] == []


@pytest.mark.parametrize("name", EVENTS)
def test_each_number_has_a_unit(name: str) -> None:
    numbers = [
        (field, told)
        for field, told in fields_of(event_schema(name))
        if told.get("type") in ("integer", "number")
    ]

    assert [field for field, told in numbers if "x-unit" not in told] == []


def test_each_kind_of_topic_with_events_has_a_schema() -> None:
    raw_names = {"posTransactionTopic": "pos"}  # the one topic whose name is older than the rule
    named = {
        name: raw_names.get(name, name)
        for name, told in topics().items()
        if told["kind"] == "raw" or "raw" in told
    }

    assert sorted(named.values()) == sorted(EVENTS)


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


def fields_of(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field with its description, those of nested objects too."""
    for name, told in schema.get("properties", {}).items():
        yield name, told
        yield from fields_of(told)
        yield from fields_of(told.get("items", {}))
