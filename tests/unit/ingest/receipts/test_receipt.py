"""What a good POS message becomes."""

from dataclasses import replace
from decimal import Decimal

import pytest

from ingest.installation.stores import StoreMoney
from ingest.sources.sales.record import CanonicalReceipt, Line, VoidedReceipt
from runtime.registry.stores import StoreEntry
from tests.unit.ingest.messages import MILK, RULES, pos, receipt, with_line


def test_message_of_the_contract_becomes_this_record() -> None:
    made = receipt(pos())

    assert made == CanonicalReceipt(
        schema_version=1,
        event_id="pos:1:123:0:42",
        store_id="1",
        happened_at="2017-09-19T22:48:03.000Z",
        received_at="2017-09-20T12:00:00.000Z",
        fingerprint=made.fingerprint,
        raw_partition=2,
        raw_offset=77,
        till_id="123",
        transaction_id="42",
        numbering_epoch="0",
        kind="sale",
        currency="USD",
        receipts=1,
        gross_minor=198,
        discounts_minor=0,
        returns_minor=0,
        voids_minor=0,
        units_milli=2000,
        returned_receipts=0,
        non_sales_minor=0,
        lines=(
            Line(
                item="Milk 1l", item_id="Milk 1l", price="0.99", amount_milli=2000, total_minor=198
            ),
        ),
    )


@pytest.mark.parametrize(
    ("line", "cents"),
    [
        ({"price": 1.005, "amount": 1}, 101),
        ({"price": 1.015, "amount": 1}, 102),
        ({"price": "1.025", "amount": 1}, 103),
        ({"price": 0.333, "amount": 3}, 100),
        ({"price": 2, "amount": 0.125}, 25),
        ({"price": 5, "amount": 2, "total": 9.99}, 999),
        ({"price": 5, "amount": 0, "total": "1.50"}, 150),
        ({"price": 0.30000000000000004, "amount": 1}, 30),
    ],
)
def test_line_total_is_given_or_price_times_amount_half_up(
    line: dict[str, object], cents: int
) -> None:
    assert receipt(with_line(**line)).lines[0].total_minor == cents


def test_currency_without_minor_unit_counts_whole_units() -> None:
    assert receipt(pos(currency="JPY", transactions=[{**MILK, "price": 150}])).gross_minor == 300


def test_receipt_without_currency_has_its_stores() -> None:
    euro = StoreMoney("USD", entries={"1": StoreEntry(currency="EUR")})
    rules = replace(RULES, money=euro)

    assert (receipt(pos(), rules).currency, receipt(pos(operation_id=2), rules).currency) == (
        "EUR",
        "USD",
    )


def test_void_names_the_receipt_that_it_takes_back() -> None:
    made = receipt(pos(kind="void", voids={"vendor_fiscal_module": 5, "transaction_id": "41"}))

    assert made.voids == VoidedReceipt(till_id="5", transaction_id="41", numbering_epoch="0")
    assert (made.event_id, made.happened_at) == ("void:pos:1:5:0:41", receipt(pos()).happened_at)


def test_void_that_says_when_its_receipt_was_closed_counts_in_that_window() -> None:
    voids = {
        "vendor_fiscal_module": 5,
        "transaction_id": "41",
        "happened_at": "2017-09-19T12:00:00+02:00",
    }
    made = receipt(pos(kind="void", voids=voids))

    assert (made.happened_at, made.voids and made.voids.voided_at) == (
        "2017-09-19T10:00:00.000Z",
        receipt(pos()).happened_at,
    )


def test_second_void_of_a_receipt_has_the_identity_of_the_first() -> None:
    voids = {"vendor_fiscal_module": 5, "transaction_id": "41"}
    first, second = (receipt(pos(kind="void", voids=voids, transaction_id=n)) for n in (50, 51))

    assert first.event_id == second.event_id
    assert first.fingerprint != second.fingerprint


def test_void_made_in_training_takes_nothing_back() -> None:
    voids = {"vendor_fiscal_module": 5, "transaction_id": "41"}

    made = receipt(pos(kind="void", voids=voids, training=True))

    assert made.event_id.startswith("pos:1:123:0:42:training:")


def test_new_numbering_epoch_is_another_event() -> None:
    assert receipt(pos(numbering_epoch="2018")).event_id == "pos:1:123:2018:42"


def test_unknown_fields_are_kept_and_change_no_identity() -> None:
    made = receipt(pos(cashier={"no": 7}, transactions=[MILK, {**MILK, "shelf": "A"}]))

    assert made.extra == {"cashier": {"no": 7}, "transactions": {"1": {"shelf": "A"}}}
    assert made.fingerprint == receipt(pos(transactions=[MILK, MILK])).fingerprint


def test_unknown_numbers_keep_their_text() -> None:
    assert receipt(b'{"weight": 1.10,' + _body()).extra == {"weight": Decimal("1.10")}


def _body() -> bytes:
    return (
        b'"happened_at":"2017-09-19T22:48:03Z","operation_id":1,"transaction_id":42,"vendor_fiscal_module":1,'
        b'"transactions":[{"item":"a","price":1,"amount":1}]}'
    )


def test_loyalty_id_is_kept_as_keyed_hash_only() -> None:
    keyed = [
        receipt(pos(loyalty_id="ann"), replace(RULES, loyalty_key=key)) for key in (b"k1", b"k2")
    ]

    assert len({made.loyalty_hash for made in keyed}) == 2
    assert len({made.fingerprint for made in (*keyed, receipt(pos(loyalty_id="ann")))}) == 1
    assert receipt(pos(loyalty_id="ann")).loyalty_hash is None
    assert "ann" not in str(keyed)


def test_card_numbers_and_addresses_in_texts_are_blacked_out() -> None:
    made = receipt(
        pos(
            note={"ann@example.org": 4111111111111111},
            transactions=[{**MILK, "item": "gift 4111 1111 1111 1111"}],
        )
    )

    assert made.lines[0].item == made.lines[0].item_id == "gift [redacted]"
    assert made.extra == {"note": {"[redacted]": "[redacted]"}}


def test_a_new_key_is_told_from_a_new_customer() -> None:
    hashes = [
        receipt(pos(loyalty_id=name), replace(RULES, loyalty_key=key)).loyalty_hash or ""
        for key in (b"k1", b"k2")
        for name in "ab"
    ]

    assert len({made.split(":")[0] for made in hashes}) == 2 < len(set(hashes)) == 4


def test_fields_of_personal_names_are_blacked_out_wherever_they_lie() -> None:
    personal = {
        "customer": {"name": "Xaver1"},
        "Phone": 8675309,
        "notes": [{"e-mail": "Xaver1"}, {"IBAN": ["Xaver1"]}],
        "mac": "Xaver1",
    }
    made = receipt(
        pos(**personal, cashier={"no": 7}, transactions=[{**MILK, "loyaltyId": "Xaver1"}])
    )

    assert made.extra == {
        "customer": "[redacted]",
        "Phone": "[redacted]",
        "notes": [{"e-mail": "[redacted]"}, {"IBAN": "[redacted]"}],
        "mac": "[redacted]",
        "cashier": {"no": 7},
        "transactions": {"0": {"loyaltyId": "[redacted]"}},
    }


def test_barcodes_are_kept_as_items_and_cards_are_not() -> None:
    codes = ["4006381333931", "4000417025005", "10012345678902", "96385074", "036000291452"]
    made = receipt(
        pos(ean=codes[0], transactions=[{**MILK, "item": code, "item_id": code} for code in codes])
    )

    assert [(line.item, line.item_id) for line in made.lines] == [(code, code) for code in codes]
    assert made.extra == {"ean": codes[0]}
    [line] = receipt(with_line(item="4111111111111111", item_id="5555555555554444")).lines
    assert (line.item, line.item_id) == ("[redacted]", "5555555555554444")


def test_receipt_number_that_looks_like_a_card_is_left_alone() -> None:
    assert receipt(pos(transaction_id=4111111111111111)).transaction_id == "4111111111111111"


def test_conflicting_payload_has_another_fingerprint() -> None:
    messages = [
        pos(),
        with_line(price=0.98),
        with_line(item="Milk 2l"),
        pos(happened_at="2017-09-19T22:48:04Z"),
        pos(kind="return"),
    ]

    assert len({receipt(message).fingerprint for message in messages}) == len(messages)
