from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ops.docs.reference import source_copies
from runtime.registry.sources import FAMILIES
from schemas.loader import FOLDER, builtin_sources, event_schema, message_schema, sources
from tally.events.identity import SCHEMA_VERSION
from tests.unit.schemas.shapes import shape

SCHEMAS = [event_schema(name) for name in sources()] + [message_schema(name) for name in sources()]
BY_SCHEMA = pytest.mark.parametrize("schema", SCHEMAS, ids=[schema["title"] for schema in SCHEMAS])


def test_a_planted_difference_of_type_is_found() -> None:
    told = event_schema("traffic")
    planted = {**told, "properties": {**told["properties"], "exits": {"type": "string"}}}

    assert shape(planted, {}) != shape(told, {})


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_axes_are_texts_and_parts_integers_that_each_record_has(family: Any) -> None:
    fields = shape(event_schema(family.name), {})["fields"]

    assert [fields[axis] for axis in family.axes] == [("string", True)] * len(family.axes)
    # What is read of many records is in none.
    parts = family.parts if family.reading is None else ()
    assert [fields[part.name] for part in parts] == [
        ("integer", not part.is_optional) for part in parts
    ]


@BY_SCHEMA
def test_each_event_schema_is_valid_and_carries_the_version(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)

    assert schema["properties"]["schema_version"]["const"] == SCHEMA_VERSION


@BY_SCHEMA
def test_each_field_has_a_meaning(schema: dict[str, Any]) -> None:
    assert [field for field, told in fields_of(schema) if not told.get("x-meaning")] == []


@BY_SCHEMA
def test_each_number_has_a_unit(schema: dict[str, Any]) -> None:
    numbers = [
        (field, told)
        for field, told in fields_of(schema)
        if told.get("type") in ("integer", "number")
    ]

    assert [field for field, told in numbers if "x-unit" not in told] == []


def test_the_copies_for_readers_are_those_of_the_descriptors() -> None:
    made = source_copies(builtin_sources())

    stale = [str(file) for file, text in made.items() if file.read_text("utf-8") != text]

    assert stale == [], "run `python -m ops.docs`"
    assert {file.name for file in (FOLDER / "events").iterdir()} == {
        file.name for file in made if file.parent == FOLDER / "events"
    }


def fields_of(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field with its description, those of nested objects too."""
    for name, told in schema.get("properties", {}).items():
        yield name, told
        yield from fields_of(told)
        yield from fields_of(told.get("items", {}))
