"""Lines of stock documents: amounts at their limits, what is one line, and the article's id."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ingest.installation.arrival import Arrival, Rules
from ingest.sources.inventory.contract import CanonicalStockLine, normalise
from ingest.sources.sales.contract import normalise as receipt_of
from runtime.registry.sources import FAMILIES
from schemas import loader
from tally.algebra.level import Level
from tally.algebra.parts import MAX_PART
from tally.config.settings import Settings
from tally.errors import RejectedEvent

RULES = Rules.from_settings(Settings.load({}))
ARRIVAL = Arrival(datetime(2026, 11, 26, 12, tzinfo=UTC), 2, 77)
SCHEMA = Draft202012Validator(loader.message_schema("inventory"))
LINE: dict[str, Any] = {
    "store_id": "367",
    "document_id": "DN-1",
    "happened_at": "2026-11-26T11:00:00Z",
    "kind": "delivery",
    "item_id": "7",
    "amount": 24,
}


def record(**changed: Any) -> CanonicalStockLine:
    told = {name: value for name, value in {**LINE, **changed}.items() if value is not None}
    return normalise(json.dumps(told).encode(), ARRIVAL, RULES)


@pytest.mark.parametrize(
    ("kind", "amount", "parts"),
    [
        ("delivery", 24, (0, 24000, 0, 0, Level.encode_movement(24000))),
        ("transfer_in", "0.001", (0, 0, 1, 0, Level.encode_movement(1))),
        ("transfer_out", 1.5, (0, 0, 0, 1500, Level.encode_movement(-1500))),
        ("count", 0, (1, 0, 0, 0, Level.encode_count(0))),
        ("count", "-0", (1, 0, 0, 0, Level.encode_count(0))),
        ("count", 100_000_000, (1, 0, 0, 0, Level.encode_count(10**11))),
        ("transfer_out", 100_000_000, (0, 0, 0, 10**11, Level.encode_movement(-(10**11)))),
    ],
)
def test_a_line_brings_one_number_to_each_part(
    kind: str, amount: Any, parts: tuple[int, ...]
) -> None:
    found = record(kind=kind, amount=amount)

    brought = tuple(getattr(found, name) for name in FAMILIES["inventory"].part_names)
    assert brought == parts
    # What is beyond that no layer would read.
    assert all(abs(number) <= MAX_PART for number in brought)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"amount": 0}, "out_of_range"),
        ({"amount": 0.0005}, "out_of_range"),
        ({"amount": -24}, "out_of_range"),
        ({"amount": "100000000.001"}, "out_of_range"),
        ({"amount": 10**30}, "out_of_range"),
        ({"amount": 2**63}, "out_of_range"),
        ({"amount": 2**63 - 1, "kind": "count"}, "out_of_range"),
        ({"amount": -(2**63), "kind": "count"}, "out_of_range"),
        ({"amount": str(2**64), "kind": "transfer_out"}, "out_of_range"),
        ({"amount": True}, "wrong_type"),
        ({"amount": "NaN"}, "wrong_type"),
        ({"amount": None}, "missing_field"),
        ({"item_id": None}, "missing_field"),
        ({"item_id": None, "item": ""}, "out_of_range"),
        ({"item_id": "a\nb"}, "out_of_range"),
        ({"line": "a b"}, "out_of_range"),
        ({"document_id": "x" * 65}, "out_of_range"),
        ({"kind": "Delivery"}, "out_of_range"),
        ({"happened_at": "2026-11-26T12:05:01Z"}, "future_time"),
    ],
)
def test_what_is_beyond_a_limit_is_refused_for_its_reason(
    changed: dict[str, Any], reason: str
) -> None:
    with pytest.raises(RejectedEvent) as refused:
        record(**changed)

    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("changed", "is_good"),
    [
        ({}, True),
        ({"kind": "count", "amount": 0}, True),
        ({"amount": 0}, False),
        ({"amount": 100_000_000.001}, False),
        ({"amount": -1}, False),
        ({"item_id": None}, False),
        ({"item_id": None, "item": "Milk 1l"}, True),
        ({"kind": "sale"}, False),
        ({"line": 3, "unknown": {"a": 1}}, True),
    ],
)
def test_the_schema_that_senders_see_says_the_same(changed: dict[str, Any], is_good: bool) -> None:
    told = {name: value for name, value in {**LINE, **changed}.items() if value is not None}

    assert SCHEMA.is_valid(told) is is_good
    if is_good:
        assert record(**changed).store_id == "367"


def test_identity_is_store_document_and_line_whatever_they_are_made_of() -> None:
    assert record().event_id == "inventory:367:DN-1:7"
    assert record(document_id="a:b", item_id="c").event_id == "inventory:367:a%3Ab:c"
    assert record(document_id="a", item_id="b:c").event_id == "inventory:367:a:b%3Ac"
    assert record(line=2).event_id == "inventory:367:DN-1:2"
    assert record(item_id=None, item="50% off: milk").event_id.endswith(":50%25 off%3A milk")


@pytest.mark.parametrize(
    "changed",
    [{"amount": 25}, {"kind": "count"}, {"happened_at": "2026-11-26T11:00:01Z"}],
)
def test_another_content_of_one_line_is_a_conflict(changed: dict[str, Any]) -> None:
    one, other = record(), record(**changed)

    assert (one.event_id, one.fingerprint == other.fingerprint) == (other.event_id, False)


def test_the_same_line_in_other_words_is_a_copy() -> None:
    other = record(
        store_id=367, amount="24.000", happened_at="2026-11-26T12:00:00+01:00", item="Milk"
    )

    assert other.fingerprint == record().fingerprint


@pytest.mark.parametrize(
    "named",
    [
        {"item": "Milk 1l", "item_id": "1085983"},
        {"item": "Milk 1l"},
        {"item": "gift for ann@example.org"},
        {"item": "Gift", "item_id": "4111111111111111"},
        {"item": "Ä" * 256},
        {"item": "é" * 255},
        {"item": "a|b|50%25"},
        {"item": "Käse 😀 €"},
    ],
)
def test_an_article_is_the_one_that_receipts_have(named: dict[str, str]) -> None:
    sold = {
        "happened_at": "2026-11-26T11:00:00Z",
        "operation_id": 367,
        "transaction_id": 1,
        "vendor_fiscal_module": 1,
        "transactions": [{**named, "price": 1, "amount": 1}],
    }
    receipt = receipt_of(json.dumps(sold).encode(), ARRIVAL, RULES)

    found = record(item_id=None, **named) if "item_id" not in named else record(**named)

    assert found.item_id == receipt.lines[0].item_id
    assert "ann@" not in found.event_id and "ann@" not in str(found.item)
