"""Each word of POSLog's schema, and what a receipt with it adds: every row of facts.yaml."""

import time
from typing import Any

import pytest

from ingest.contract.vendor import SkippedPart, VendorBody
from ingest.sources.sales.poslog.facts import load_facts
from ingest.sources.sales.vendors.poslog import messages
from tally.errors import RejectedEvent
from tests.support.stack.nominal_processor import slowness
from tests.unit.ingest.messages import ARRIVED, RULES, parts

HEAD = (
    "<BusinessUnit><UnitID>1</UnitID></BusinessUnit><WorkstationID>1</WorkstationID>"
    "<SequenceNumber>42</SequenceNumber><EndDateTime>2017-09-19T22:48:03Z</EndDateTime>"
)
SHIRT = "<ItemID>7</ItemID><ExtendedAmount>10.00</ExtendedAmount><Quantity>2</Quantity>"
SALE = f"<Sale>{SHIRT}</Sale>"
SOLD = {"receipts": 1, "gross_minor": 1000, "units_milli": 2000}
RETURNED = {"returned_receipts": 1, "returns_minor": 1000, "units_milli": -2000}
TAKEN = {name: -value for name, value in SOLD.items()}
REFUSED, SKIPPED = "refused", "skipped"


def beside_a_sale(**more: int) -> dict[str, int]:
    return SOLD | more


# By the element of a LineItem that stands beside a sale of two shirts for 10.00: its content, and
# what the receipt adds. Of goods: alone.
LINE_ITEMS: dict[str, tuple[str, Any]] = {
    "Sale": (SHIRT, SOLD),
    "SaleForDelivery": (SHIRT, SOLD),
    "SaleForPickup": (SHIRT, SOLD),
    "FuelSale": (SHIRT, SOLD),
    "Return": (SHIRT, RETURNED),
    "ReturnForDelivery": (SHIRT, RETURNED),
    "ReturnForPickup": (SHIRT, RETURNED),
    "Voids": ("<ItemLink>1</ItemLink>", {}),
    "Discount": ("<Amount>1.00</Amount>", beside_a_sale(discounts_minor=100)),
    "LoyaltyReward": (
        "<Discount><Amount>1.00</Amount></Discount>",
        beside_a_sale(discounts_minor=100),
    ),
    "LoyaltyRedemption": ("<Amount>1.00</Amount>", beside_a_sale(discounts_minor=100)),
    "Coupon": ("<RewardValue>1.00</RewardValue>", beside_a_sale(discounts_minor=100)),
    "Rebate": (
        "<ExtendedRebateAmount>1.00</ExtendedRebateAmount>",
        beside_a_sale(discounts_minor=100),
    ),
    "GiftCertificate": ("<Amount>1.00</Amount>", beside_a_sale(non_sales_minor=100)),
    "SaleOfGiftCard": (
        "<InitialBalance>1.00</InitialBalance>",
        beside_a_sale(non_sales_minor=100),
    ),
    "OnlineService": ("<InitialBalance>1.00</InitialBalance>", beside_a_sale(non_sales_minor=100)),
    "StoredValueFundSale": (
        "<ExtendedAmount>1.00</ExtendedAmount>",
        beside_a_sale(non_sales_minor=100),
    ),
    "Deposit": ("<Amount>1.00</Amount>", beside_a_sale(non_sales_minor=100)),
    "PaymentOnAccount": ("<Amount>1.00</Amount>", beside_a_sale(non_sales_minor=100)),
    "Donation": ("<Amount>1.00</Amount>", beside_a_sale(non_sales_minor=100)),
    "Layaway": (f"{SHIRT}<Deposit>1.00</Deposit>", beside_a_sale(non_sales_minor=100)),
    "CustomerOrderForDelivery": (
        f"{SHIRT}<Deposit>1.00</Deposit>",
        beside_a_sale(non_sales_minor=100),
    ),
    "CustomerOrderForPickup": (
        f"{SHIRT}<Deposit>1.00</Deposit>",
        beside_a_sale(non_sales_minor=100),
    ),
    "Tender": ("<Amount>10.00</Amount>", SOLD),
    "TenderChange": ("<Amount>1.00</Amount>", SOLD),
    "Tax": ("<Amount>1.00</Amount>", SOLD),
    "Rounding": ("0.02", SOLD),
    "RainCheck": (SHIRT, SOLD),
    "GiftRegistry": ("<RegistryID>1</RegistryID>", SOLD),
    "Points": ("<AmountForPoints>1.00</AmountForPoints>", SOLD),
    "ScanData": ("1", SOLD),
    "RetrospectiveLoyalty": (
        "<OriginalTransactionAmount>1.00</OriginalTransactionAmount>",
        SOLD,
    ),
    "PreviousLayaway": (SHIRT, REFUSED),
    "PreviousCustomerOrder": (SHIRT, REFUSED),
    "WriteOff": ("<Amount>1.00</Amount>", REFUSED),
}


def each(words: str, adds: Any) -> dict[str, Any]:
    return dict.fromkeys(words.split(), adds)


ITEM_TYPES = {
    **each("Stock Grade Service Alteration Warranty Tare ItemCollection x:Dream", SOLD),
    **each("Fee Deposit GiftCertificate", {"non_sales_minor": 1000}),
    **each("FeeRefund DepositRefund", {"non_sales_minor": -1000}),
    **each("Dream", REFUSED),
}
FUEL_TYPES = {
    **each("Sale", SOLD),
    **each("Prepay", {"non_sales_minor": 1000}),
    **each("PrepayRefund", {"non_sales_minor": -1000}),
    **each("Dream", REFUSED),
}
STATUSES = {
    **each("Finished Delivered Tendered Totaled Returned", SOLD),
    **each("Replaced Revision Updated", SOLD),
    **each("Picked Packed PartialShip Shipped OutForDelivery PartialDelivery", SOLD),
    **each("Canceled Voided TransactionVoided", {}),
    **each("Suspended SuspendedDeleted SuspendedRetrieved Resumed", {}),
    **each("InComplete InProcess Authorized Subtotal Failed", {}),
    **each("PostVoided", TAKEN),
    **each("Projection Waste", SKIPPED),
    **each("Unknown Dream", REFUSED),
}
TRANSACTION_TYPES = {
    **each("Transaction RevisedTransaction", SOLD),
    **each("Summary Suggestion NonResettableAmounts DispatchDocket", SKIPPED),
    **each("GIftReceipt GiftReceipt", SKIPPED),
    **each("Dream", REFUSED),
}
LINK_REASONS = {
    **each("Voided", TAKEN),
    **each("Resume DeferredBill Return LayAway ReceiptReprint Reservation", SOLD),
    **each("SuggestedItem RetrospectiveLoyalty PaidOut x:Dream", SOLD),
}
LINE_ACTIONS = {
    **each("Add Create Update Adjust Complete Delivered Shipped Packed Picked Return", SOLD),
    **each("Cancel Delete Remove Refusal Error", {}),
    **each("Replace", REFUSED),
}
AMOUNT_ACTIONS = {
    **each("Add", SOLD),
    **each("Subtract", {"discounts_minor": 1000}),
    **each("Replace For", REFUSED),
}


def added(line_items: str, **attributes: str) -> Any:
    """What the receipt adds; refused or skipped."""
    told = "".join(f' {name}="{value}"' for name, value in attributes.items())
    body = (
        f"<Transaction>{HEAD}<RetailTransaction{told}>{line_items}</RetailTransaction>"
        "</Transaction>"
    )
    (message,) = messages(VendorBody(body.encode(), ARRIVED, RULES))
    if isinstance(message, SkippedPart):
        return SKIPPED
    try:
        return parts(message)
    except RejectedEvent:
        return REFUSED


def line(content: str, **attributes: str) -> str:
    told = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<LineItem{told}>{content}<SequenceNumber>1</SequenceNumber></LineItem>"


@pytest.mark.parametrize("name", LINE_ITEMS)
def test_element_of_a_line_adds(name: str) -> None:
    content, adds = LINE_ITEMS[name]
    is_goods = load_facts().line_items[name].role in ("goods", "goods_back")
    beside = "" if is_goods else line(SALE)

    assert added(beside + line(f"<{name}>{content}</{name}>")) == adds


@pytest.mark.parametrize("name", ITEM_TYPES)
def test_kind_of_article_adds(name: str) -> None:
    assert added(line(f'<Sale ItemType="{name}">{SHIRT}</Sale>')) == ITEM_TYPES[name]


@pytest.mark.parametrize("name", FUEL_TYPES)
def test_kind_of_fuel_sale_adds(name: str) -> None:
    assert added(line(f'<FuelSale TypeCode="{name}">{SHIRT}</FuelSale>')) == FUEL_TYPES[name]


@pytest.mark.parametrize("name", STATUSES)
def test_receipt_of_a_status_adds(name: str) -> None:
    assert added(line(SALE), TransactionStatus=name) == STATUSES[name]


@pytest.mark.parametrize("name", TRANSACTION_TYPES)
def test_kind_of_transaction_adds(name: str) -> None:
    assert added(line(SALE), TypeCode=name) == TRANSACTION_TYPES[name]


@pytest.mark.parametrize("name", LINK_REASONS)
def test_only_a_link_that_voids_takes_a_receipt_back(name: str) -> None:
    link = (
        f'<TransactionLink ReasonCode="{name}"><WorkstationID>1</WorkstationID>'
        "<SequenceNumber>7</SequenceNumber></TransactionLink>"
    )

    assert added(link + line(SALE)) == LINK_REASONS[name]


@pytest.mark.parametrize("name", LINE_ACTIONS)
def test_action_of_a_line_adds(name: str) -> None:
    assert added(line(SALE, Action=name)) == LINE_ACTIONS[name]


@pytest.mark.parametrize("name", AMOUNT_ACTIONS)
def test_action_of_an_amount_adds(name: str) -> None:
    amount = f'<ExtendedAmount Action="{name}">10.00</ExtendedAmount>'
    sale = f"<Sale><ItemID>7</ItemID>{amount}<Quantity>2</Quantity></Sale>"

    assert added(line(sale)) == AMOUNT_ACTIONS[name]


@pytest.mark.parametrize("flag", ["CancelFlag", "DeleteFlag", "VoidFlag"])
@pytest.mark.parametrize(("said", "adds"), [("true", {}), ("1", {}), ("false", SOLD), ("0", SOLD)])
def test_flag_of_a_line_adds(flag: str, said: str, adds: dict[str, int]) -> None:
    assert added(line(SALE, **{flag: said})) == adds


@pytest.mark.parametrize(
    ("kind", "text", "is_taken"),
    [
        ("TransactionNetAmount", "10.00", True),
        ("TransactionNetAmount", "9.00", False),
        ("TransactionGrandAmount", "10.00", True),
        ("TransactionGrandAmount", "11.00", False),
        ("TransactionTaxAmount", "9.00", True),
        ("TransactionTaxSurcharge", "9.00", True),
        ("TransactionGrossAmount", "12.00", True),
        ("x:Dream", "12.00", True),
    ],
)
def test_total_of_a_kind_is_checked(kind: str, text: str, is_taken: bool) -> None:
    total = f'<Total TotalType="{kind}">{text}</Total>'

    assert added(line(SALE) + total) == (SOLD if is_taken else REFUSED)


def test_a_tip_is_no_revenue() -> None:
    total = '<Total TotalType="TransactionTipAmount">1.00</Total>'

    assert added(line(SALE) + total) == beside_a_sale(non_sales_minor=100)


def test_every_row_of_the_table_has_a_test() -> None:
    facts = load_facts()

    assert facts.line_items.keys() == LINE_ITEMS.keys()
    assert facts.item_types.keys() == ITEM_TYPES.keys() - {"Dream", "x:Dream"}
    assert facts.fuel_types.keys() == FUEL_TYPES.keys() - {"Dream"}
    assert facts.statuses.keys() == STATUSES.keys() - {"Dream"}
    assert facts.transaction_types.keys() == TRANSACTION_TYPES.keys() - {"Dream"}
    assert facts.link_reasons.keys() == LINK_REASONS.keys() - {"x:Dream"}
    assert facts.line_actions.keys() == LINE_ACTIONS.keys() - {"Replace"}
    assert facts.amount_actions.keys() == AMOUNT_ACTIONS.keys() - {"Replace", "For"}


@pytest.mark.parametrize(
    "content", [f'<Sale ItemType="Stock">{SHIRT}</Sale>', "<Voids><ItemLink>1</ItemLink></Voids>"]
)
def test_receipt_of_very_many_lines_is_refused_without_comparing_them_all(content: str) -> None:
    many = line(content, VoidFlag="true") * 20_000
    began = time.thread_time()

    assert added(line(SALE) + many) == REFUSED
    assert time.thread_time() - began < 10 * slowness()
