"""What a source's folder must hold true: one suite for those of the product and for one that is
nobody's."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from jsonschema import Draft202012Validator

from ingest.installation.arrival import Arrival, Rules
from ingest.sources.registry import load_conversion
from runtime.registry.sources import build_family
from schemas.generated import build_event_schema
from schemas.loader import builtin_sources
from schemas.source import Source, read_json_file, read_source
from tally.config.settings import Settings
from tally.errors import RejectedEvent
from tally.events.identity import CanonicalEvent
from tests.unit.schemas.shapes import shape

ELEVENTH = read_source(Path(__file__).parents[3] / "e2e" / "eleventh")
SOURCES = [*builtin_sources().values(), ELEVENTH]
BY_SOURCE = pytest.mark.parametrize("source", SOURCES, ids=[source.name for source in SOURCES])
BAD = [
    (source, bad)
    for source in SOURCES
    for bad in yaml.safe_load((source.folder / "bad.yaml").read_text("utf-8"))
]
BY_BAD = pytest.mark.parametrize(
    ("source", "bad"), BAD, ids=[f"{source.name}-{bad['reason']}" for source, bad in BAD]
)
RULES = Rules.from_settings(Settings.load({}))
ARRIVAL = Arrival(datetime(2026, 6, 1, tzinfo=UTC), 2, 77)


def canonical(source: Source, message: bytes) -> CanonicalEvent:
    return load_conversion(source)(message, ARRIVAL, RULES)


def example(source: Source) -> dict[str, Any]:
    return read_json_file(source, "example.json")


def bad_message(source: Source, bad: dict[str, Any]) -> bytes:
    """The example spoilt as the entry says, or the entry's own text."""
    if "text" in bad:
        return str(bad["text"]).encode()
    spoilt = {**example(source), **bad.get("with", {})}
    spoilt.pop(bad.get("without", ""), None)
    return json.dumps(spoilt).encode()


@BY_SOURCE
def test_the_example_follows_the_schema_that_senders_see(source: Source) -> None:
    schema = read_json_file(source, "message.schema.json")

    assert [one.message for one in Draft202012Validator(schema).iter_errors(example(source))] == []


@BY_SOURCE
def test_the_record_of_the_example_follows_the_canonical_schema(source: Source) -> None:
    record = canonical(source, json.dumps(example(source)).encode())

    marked = msgspec.structs.replace(record, repeat=True)
    for one in (record, marked):
        written = msgspec.json.decode(msgspec.json.encode(one))
        found = Draft202012Validator(build_event_schema(source)).iter_errors(written)
        assert [error.message for error in found] == []


@BY_SOURCE
def test_a_record_has_the_axes_and_parts_of_its_family_as_texts_and_whole_numbers(
    source: Source,
) -> None:
    record, family = canonical(source, json.dumps(example(source)).encode()), build_family(source)

    assert {type(getattr(record, axis)) for axis in family.axes} <= {str}
    # What is read of many records is in none.
    parts = family.part_names if family.reading is None else ()
    assert {type(getattr(record, part)) for part in parts} <= {int}


@BY_SOURCE
def test_the_python_type_and_the_canonical_schema_have_the_same_fields(source: Source) -> None:
    struct = type(canonical(source, json.dumps(example(source)).encode()))
    written = msgspec.json.schema(struct)

    assert shape(written, written["$defs"]) == shape(build_event_schema(source), {})


@BY_SOURCE
def test_the_same_message_again_is_the_same_identity_and_fingerprint(source: Source) -> None:
    later = Arrival(ARRIVAL.received_at, 3, 99)
    message = json.dumps(example(source)).encode()

    again = load_conversion(source)(message + b" ", later, RULES)

    assert (again.event_id, again.fingerprint) == (
        canonical(source, message).event_id,
        canonical(source, message).fingerprint,
    )


@BY_BAD
def test_a_bad_example_is_refused_for_its_reason(source: Source, bad: dict[str, Any]) -> None:
    with pytest.raises(RejectedEvent) as rejected:
        canonical(source, bad_message(source, bad))

    assert rejected.value.reason == bad["reason"]


@BY_SOURCE
def test_each_source_has_bad_examples_of_several_reasons(source: Source) -> None:
    assert len({bad["reason"] for of, bad in BAD if of is source}) >= 5
