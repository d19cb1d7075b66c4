"""Messages as tills of many vendors write them: names, times, new runs of numbers, versions."""

import unicodedata
from dataclasses import replace
from datetime import time
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ingest.contract.vendor import VendorBody
from ingest.installation.stores import StoreClocks
from ingest.sources.sales.vendors.poslog import messages
from tally.errors import RejectedEvent
from tally.time.day_clock import DayClock
from tests.unit.ingest.messages import ARRIVED, RULES, parts, pos, receipt, with_line

BAR = DayClock.from_zone(ZoneInfo("Europe/Bratislava"), time(4))
BAR_RULES = replace(RULES, numberings={"1": "daily"}, clocks=StoreClocks(by_store={"1": BAR}))


@pytest.mark.parametrize("number", ["Order 00591-006-0018", "TEA/GREEN 100", "Über #7", "a" * 128])
def test_number_of_a_receipt_is_kept_as_written(number: str) -> None:
    assert receipt(pos(transaction_id=number)).transaction_id == number


@pytest.mark.parametrize("number", ["TEA/GREEN 100", "Über #7", "..", "a" * 128])
def test_number_of_an_article_is_kept_as_written(number: str) -> None:
    assert receipt(with_line(item_id=number)).lines[0].item_id == number


def test_two_forms_of_one_letter_are_one_number() -> None:
    decomposed = unicodedata.normalize("NFD", "Café 7")

    assert receipt(pos(transaction_id=decomposed)).event_id == (
        receipt(pos(transaction_id="Café 7")).event_id
    )


@pytest.mark.parametrize("number", ["", "  ", "a\tb", "a\x7f", "a\u2028b", "ä" * 65, -1, 10**200])
def test_other_numbers_are_refused_with_their_field(number: object) -> None:
    with pytest.raises(RejectedEvent, match="/transactions/0/item_id"):
        receipt(with_line(item_id=number))


@pytest.mark.parametrize("number", ["Order 7", "a/b"])
@pytest.mark.parametrize("name", ["operation_id", "vendor_fiscal_module"])
def test_stores_and_tills_are_named_as_before(name: str, number: str) -> None:
    with pytest.raises(RejectedEvent, match=f"/{name}"):
        receipt(pos(**{name: number}))


@pytest.mark.parametrize("offset", ["+0000", "+00:00", "Z"])
def test_an_offset_needs_no_colon(offset: str) -> None:
    made = receipt(pos(happened_at=f"2017-09-19T22:48:03.000{offset}"))

    assert made.happened_at == "2017-09-19T22:48:03.000Z"


@pytest.mark.parametrize("number", ["4453585529008", "4111111111111111"])
def test_an_article_number_is_no_payment_card(number: str) -> None:
    assert receipt(with_line(item_id=number)).lines[0].item_id == number
    # Typed in where articles are named, it may well be one.
    assert receipt(with_line(item=number)).lines[0].item_id == "[redacted]"


@pytest.mark.parametrize(
    ("happened_at", "epoch"),
    [
        ("2026-03-07T00:30:00+01:00", "2026-03-06"),
        ("2026-03-07T03:59:59+01:00", "2026-03-06"),
        ("2026-03-07T04:00:00+01:00", "2026-03-07"),
        ("2026-03-07T23:10:00+01:00", "2026-03-07"),
    ],
)
def test_numbers_begin_again_with_the_stores_day(happened_at: str, epoch: str) -> None:
    rules = replace(BAR_RULES, future_tolerance=RULES.future_tolerance * 10**6)

    assert receipt(pos(happened_at=happened_at), rules).numbering_epoch == epoch


VOIDED = {"vendor_fiscal_module": 1, "transaction_id": 42}


def test_a_number_alone_names_no_receipt_where_numbers_begin_again() -> None:
    with pytest.raises(RejectedEvent, match="/voids/happened_at"):
        receipt(pos(kind="void", voids=VOIDED), BAR_RULES)


@pytest.mark.parametrize(
    "more", [{"numbering_epoch": "2017-09-18"}, {"happened_at": "2017-09-18T21:00:00Z"}]
)
def test_a_void_names_its_receipt_by_day_or_time(more: dict[str, str]) -> None:
    made = receipt(pos(kind="void", voids=VOIDED | more), BAR_RULES)

    assert made.event_id == "void:pos:1:1:2017-09-18:42"


def test_versions_of_an_unfinished_receipt_are_events_of_their_own() -> None:
    suspended = with_line(amount=1) | {"transaction_status": "suspended"}
    again = with_line(amount=2) | {"transaction_status": "suspended"}
    resumed = with_line(amount=2) | {"transaction_status": "resumed"}
    finished = with_line(amount=2)

    made = [receipt(message) for message in (suspended, again, resumed, finished)]

    assert len({version.event_id for version in made}) == 4
    assert receipt(suspended).event_id == made[0].event_id
    assert [version.receipts for version in made] == [0, 0, 0, 1]


@pytest.mark.parametrize("total", ["-65.00", "65.00"])
def test_total_of_a_return_may_have_either_sign(total: str) -> None:
    lines = [{"item": "a", "price": "80", "amount": 1}, {"item": "b", "price": "-15", "amount": 1}]

    added = parts(pos(kind="return", net_total=total, transactions=lines))

    assert added["returns_minor"] - -added["discounts_minor"] == 6500


def test_total_of_a_sale_has_its_own_sign() -> None:
    with pytest.raises(RejectedEvent, match="/net_total"):
        receipt(pos(net_total="-1.98"))


def test_line_above_the_bound_is_refused() -> None:
    lines = [{"item": "a", "price": "10000000001", "amount": sign} for sign in (1, -1)]

    with pytest.raises(RejectedEvent, match="/transactions/0"):
        receipt(pos(transactions=lines))


def test_number_of_a_million_digits_is_refused_as_it_was_written() -> None:
    body = """<Transaction><BusinessUnit><UnitID>1</UnitID></BusinessUnit>
        <WorkstationID>1</WorkstationID><SequenceNumber>1</SequenceNumber>
        <EndDateTime>2017-09-19T22:48:03Z</EndDateTime><RetailTransaction><LineItem><Sale>
        <ItemID>7</ItemID><ExtendedAmount>1e999999</ExtendedAmount><Quantity>1e-999999</Quantity>
        </Sale></LineItem></RetailTransaction></Transaction>"""
    (message,) = messages(VendorBody(body.encode(), ARRIVED, RULES))

    with pytest.raises(RejectedEvent, match="1e999999"):
        assert isinstance(message, bytes)
        receipt(message)


WEIGHED = {"item": "Ham", "price": "2.50", "amount": "0.450"}
HALVES = {"item": "Tea", "price": "1", "amount": 1, "total": "0.335"}


@pytest.mark.parametrize(
    ("lines", "total", "rounding"),
    [
        # 1.125 and 0.335 twice: each line up, each line to even, the receipt.
        ([WEIGHED], "1.13", []),
        ([WEIGHED], "1.12", [-1]),
        ([HALVES, HALVES], "0.68", []),
        ([HALVES, HALVES], "0.67", [-1]),
        ([WEIGHED, HALVES], "1.46", [-1]),
    ],
)
def test_a_till_may_round_in_another_way(
    lines: list[dict[str, Any]], total: str, rounding: list[int]
) -> None:
    made = receipt(pos(transactions=lines, net_total=total))

    added = [line.total_minor for line in made.lines if line.line_type == "total_rounding"]
    assert added == rounding
    assert made.gross_minor + made.rounding_minor == int(total.replace(".", ""))


@pytest.mark.parametrize("total", ["1.11", "1.14", "2.13"])
def test_more_than_half_a_unit_a_line_is_no_rounding(total: str) -> None:
    with pytest.raises(RejectedEvent, match="/net_total"):
        receipt(pos(transactions=[WEIGHED], net_total=total))


def contents(message: Any) -> str:
    return receipt(message).fingerprint.partition(".")[2]


CASH = {"item": "Cash", "price": "2.00", "amount": 1, "line_type": "tender"}


@pytest.mark.parametrize(
    "changed",
    [
        with_line(item="Milk, fresh", item_id="Milk 1l"),
        pos(transactions=[*with_line()["transactions"], CASH]),
        pos(net_total="1.98"),
    ],
)
def test_a_copy_with_other_texts_or_tenders_says_the_same(changed: dict[str, Any]) -> None:
    assert contents(changed) == contents(pos())
    # What was written before there were two digests is compared by the first.
    assert receipt(changed).event_id == receipt(pos()).event_id


@pytest.mark.parametrize(
    "changed",
    [
        with_line(amount=3),
        with_line(price="1.00"),
        with_line(category="Dairy"),
        with_line(line_type="deposit"),
        with_line(cancelled=True),
        pos(happened_at="2017-09-19T22:48:04+00:00"),
        pos(kind="return"),
        pos(currency="EUR"),
        pos(transactions=[*with_line()["transactions"], {**CASH, "line_type": "tip"}]),
    ],
)
def test_a_copy_that_changes_a_number_says_something_else(changed: dict[str, Any]) -> None:
    assert contents(changed) != contents(pos())
