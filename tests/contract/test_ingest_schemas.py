"""The JSON Schema files and the normaliser agree on what is a good message and what a canonical
record looks like."""

from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from schemas import loader
from tally.errors import RejectedEvent
from tests.unit.ingest.messages import (
    MILK,
    POS,
    TRAFFIC,
    interval,
    pos,
    receipt,
    with_line,
    without,
)

GOOD_RECEIPTS = [
    POS,
    pos(
        operation_id="store-1",
        transaction_id="a:1",
        numbering_epoch=2,
        currency="EUR",
        kind="void",
        schema_version=1,
    ),
    pos(voids={"vendor_fiscal_module": 1, "transaction_id": 2}, loyalty_id="x", unknown={"a": [1]}),
    pos(kind="void", voids={"transaction_id": "order 7", "revision": 2}, transactions=[]),
    pos(revision=3, reference="order 7"),
    pos(replaces=True),
    pos(transaction_status="voided", transactions=[]),
    with_line(price="1.50", total=-3, item_id=7, category="Dairy", shelf="A"),
    pos(transactions=[MILK] * 1000),
    pos(kind="void", voids={"vendor_fiscal_module": 1, "transaction_id": 2}, transactions=[]),
]
BAD_RECEIPTS = [
    *(without(POS, name) for name in POS),
    pos(happened_at="2017-09-19T22:48:03"),
    pos(happened_at=7),
    pos(operation_id="a b"),
    pos(operation_id="."),
    pos(vendor_fiscal_module=".."),
    pos(operation_id=-1),
    pos(operation_id=True),
    pos(kind="gift"),
    pos(currency="usd"),
    pos(schema_version=2),
    pos(transactions=[]),
    pos(kind="void", transactions=[]),
    pos(voids={"vendor_fiscal_module": 1, "transaction_id": 2}, transactions=[]),
    pos(transactions=[MILK] * 1001),
    pos(loyalty_id=""),
    pos(voids={"vendor_fiscal_module": 1}),
    pos(revision=-1),
    pos(revision="2"),
    pos(replaces="yes"),
    pos(reference=""),
    pos(transaction_status="suspended", transactions=[]),
    with_line(item=""),
    with_line(price=None),
    with_line(price="free"),
    with_line(price=10**13),
    with_line(amount="1,5"),
    with_line(category=7),
]
HEARTBEAT = {
    **{name: TRAFFIC[name] for name in ("store_id", "device_id", "happened_at")},
    **{"interval_seconds": 900, "heartbeat": True},
}
GOOD_INTERVALS = [
    TRAFFIC,
    without(TRAFFIC, "passers_by"),
    {**TRAFFIC, "store_id": 367, "in": 0, "note": "x"},
    {**TRAFFIC, "groups_in": 2, "heartbeat": False},
    # What is not told may be null, too.
    {**TRAFFIC, **dict.fromkeys(("passers_by", "groups_in", "revision", "heartbeat"))},
    HEARTBEAT,
]
BAD_INTERVALS = [
    *(without(TRAFFIC, name) for name in TRAFFIC if name != "passers_by"),
    {**TRAFFIC, "in": -1},
    {**TRAFFIC, "in": "3"},
    {**TRAFFIC, "interval_seconds": 3601},
    {**TRAFFIC, "out": 1_000_001},
    {**TRAFFIC, "groups_in": -1},
    {**TRAFFIC, "heartbeat": True},
    {**HEARTBEAT, "heartbeat": "yes"},
    {**HEARTBEAT, "heartbeat": False},
    {**HEARTBEAT, "groups_in": 1},
    without(HEARTBEAT, "interval_seconds"),
]


def schema(name: str) -> Draft202012Validator:
    return Draft202012Validator(loader.event_schema(name))


def message_schema(name: str) -> Draft202012Validator:
    return Draft202012Validator(loader.message_schema(name))


@pytest.mark.parametrize("message", GOOD_RECEIPTS)
def test_good_receipt_is_good_for_both_and_its_record_follows_the_schema(
    message: dict[str, Any],
) -> None:
    assert message_schema("sales").is_valid(message)
    assert (
        list(
            schema("sales").iter_errors(msgspec.json.decode(msgspec.json.encode(receipt(message))))
        )
        == []
    )


@pytest.mark.parametrize("message", BAD_RECEIPTS)
def test_bad_receipt_is_bad_for_both(message: dict[str, Any]) -> None:
    assert not message_schema("sales").is_valid(message)
    with pytest.raises(RejectedEvent):
        receipt(message)


@pytest.mark.parametrize("message", GOOD_INTERVALS)
def test_good_interval_is_good_for_both_and_its_record_follows_the_schema(
    message: dict[str, Any],
) -> None:
    assert message_schema("traffic").is_valid(message)
    assert (
        list(
            schema("traffic").iter_errors(
                msgspec.json.decode(msgspec.json.encode(interval(message)))
            )
        )
        == []
    )


@pytest.mark.parametrize("message", BAD_INTERVALS)
def test_bad_interval_is_bad_for_both(message: dict[str, Any]) -> None:
    assert not message_schema("traffic").is_valid(message)
    with pytest.raises(RejectedEvent):
        interval(message)


def test_a_marked_copy_follows_the_schema_too() -> None:
    for name, made in (("sales", receipt(POS)), ("traffic", interval(TRAFFIC))):
        marked = msgspec.structs.replace(made, repeat=True)
        assert (
            list(schema(name).iter_errors(msgspec.json.decode(msgspec.json.encode(marked)))) == []
        )
